package sapwood

import "testing"

// A live map of lists is followed as it is reloaded, taken over, and removed.
func TestLiveListsBesideChanges(t *testing.T) {
	folder := liveFolder(t)
	s := serve(t, folder, "lists", "||ads.example^\n", "--allow-shrunk")
	l := lists4(t, s.live)
	asked := func(name string, wanted Action) {
		t.Helper()
		if v, err := l.Ask(name, 1); err != nil || v.Action != wanted || v.Found && v.ListName != s.list {
			t.Error(name, v, err)
		}
	}
	asked("www.ads.example", ActionNXDomain)
	asked("example.org", ActionPass)
	s.write("||other.example^$dnsrewrite=REFUSED\n@@||good.example^\n")
	s.do("reload")
	asked("www.ads.example", ActionPass)
	asked("other.example", ActionRefused)
	s.kill()
	asked("other.example", ActionRefused)
	s = serve(t, folder, "lists", "||third.example^\n", "--allow-shrunk", "--remove")
	asked("third.example", ActionNXDomain)
	s.quit()
	_, err := l.Ask("third.example", 1)
	wants(t, err, ErrRemoved)
}
