package sapwood

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// arenaOfImage is an arena over a copy of one, which is as long as its header page says. Its memory
// is that of this process.
func arenaOfImage(image []byte) (*Arena, error) {
	size := len(image)
	if size >= pageBytes {
		stated := binary.LittleEndian.Uint64(image[bytesAt:])
		if stated%pageBytes == 0 && stated <= 1<<26 {
			size = max(size, int(stated))
		}
	}
	return arenaOf(mappingOf(image, size))
}

// question is a line of vectors: what is asked, about which key, and the numbers of the answer.
type question struct {
	what    string
	key     []byte
	numbers []uint64
}

// vectorsOf reads the words of an image, if there are some, and questions.
func vectorsOf(t testing.TB, file string) (image []byte, questions []question) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		words := strings.Fields(line)
		switch {
		case line == "" || line[0] == '#':
		case words[0] == "word":
			at, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatal(line, err)
			}
			word, err := strconv.ParseUint(words[2], 0, 64)
			if err != nil {
				t.Fatal(line, err)
			}
			image = append(image, make([]byte, max(0, at+8-len(image)))...)
			binary.LittleEndian.PutUint64(image[at:], word)
		default:
			key, err := hex.DecodeString(strings.TrimPrefix(words[1], "."))
			if err != nil {
				t.Fatal(line, err)
			}
			q := question{what: words[0], key: key}
			for _, word := range words[2:] {
				number, err := strconv.ParseUint(word, 10, 64)
				if err != nil {
					t.Fatal(line, err)
				}
				q.numbers = append(q.numbers, number)
			}
			questions = append(questions, q)
		}
	}
	return image, questions
}

// numberOf is the number that a value holds: its first eight bytes. In a map of byte strings, the
// rest must be what the tests of kernel/bpf make of the number.
func numberOf(t testing.TB, value []byte) uint64 {
	t.Helper()
	if len(value) < 8 {
		t.Fatalf("a value of %d bytes", len(value))
	}
	number := binary.LittleEndian.Uint64(value)
	if len(value) > 8 {
		for i, c := range value[8:] {
			i := uint64(i) + 8
			if c != byte(number>>(i%8*8)^i) {
				t.Fatalf("the value %x is not that of %d", value, number)
			}
		}
	}
	return number
}

// walked is the number of a walk's entries and the sum of their values.
func walked(t testing.TB, walk *Walk) ([]uint64, error) {
	answer := []uint64{0, 0}
	var before []byte
	for key, value := range walk.All() {
		if answer[0] > 0 && bytes.Compare(before, key) >= 0 {
			t.Fatalf("%x comes behind %x", key, before)
		}
		before = key
		answer[0]++
		answer[1] = answer[1]*31 + numberOf(t, value)
	}
	return answer, walk.Err()
}

// answer asks the map; nil when the question is not one for this package.
func (q *question) answer(t testing.TB, m *Map) ([]uint64, error) {
	var value []byte
	var found bool
	var err error
	switch q.what {
	case "get":
		value, found, err = m.Get(q.key)
	case "first":
		_, value, found, err = m.First()
	case "last":
		_, value, found, err = m.Last()
	case "next":
		_, value, found, err = m.Next(q.key)
	case "prev":
		_, value, found, err = m.Previous(q.key)
	case "longest":
		_, value, found, err = m.LongestPrefix(q.key)
	case "from":
		return walked(t, m.From(q.key))
	case "prefix":
		return walked(t, m.Prefix(q.key))
	default:
		return nil, nil
	}
	if err != nil || !found {
		return []uint64{0}, err
	}
	return []uint64{numberOf(t, value)}, nil
}

// asked asks all questions of an image's map, and returns the number of answers that were compared.
func asked(t testing.TB, image []byte, questions []question) (int, error) {
	t.Helper()
	arena, err := arenaOfImage(image)
	if err != nil {
		return 0, err
	}
	windows, err := arena.Windows()
	if err != nil {
		return 0, err
	}
	var m *Map
	ordered, count := false, 0
	for _, q := range questions {
		if q.what == "window" {
			for _, w := range windows {
				if w.Number != int(q.numbers[0]) {
					continue
				}
				if m, err = arena.Map(w.Name); err != nil {
					return 0, err
				}
				if ordered, err = m.HasOrder(); err != nil {
					return 0, err
				}
			}
			continue
		}
		got, err := q.answer(t, m)
		switch {
		case got == nil:
			continue
		case !ordered && q.what != "get":
			if !errors.Is(err, ErrNoOrder) {
				return 0, fmt.Errorf("%s %x: %v, %v, though there is no order", q.what, q.key, got, err)
			}
		case err != nil:
			return 0, fmt.Errorf("%s %x: %w", q.what, q.key, err)
		case fmt.Sprint(got) != fmt.Sprint(q.numbers):
			return 0, fmt.Errorf("%s %x: %v, not %v", q.what, q.key, got, q.numbers)
		}
		count++
	}
	// A walk in any order has as many entries as there are.
	length, err := m.Len()
	if err != nil {
		return 0, err
	}
	all := map[string]bool{}
	walk := m.All()
	for key, value := range walk.All() {
		if all[string(key)] {
			return 0, fmt.Errorf("%x comes twice", key)
		}
		all[string(key)] = true
		if got, found, err := m.Get(key); !found || err != nil || !bytes.Equal(got, value) {
			return 0, fmt.Errorf("%x: %x, %v, %v in a lookup, %x in a walk", key, got, found, err, value)
		}
	}
	if walk.Err() != nil || len(all) != length {
		return 0, fmt.Errorf("%d of %d entries, %v", len(all), length, walk.Err())
	}
	return count, nil
}

const kept = "../../kernel/bpf/bpf/vectors/qp.txt"

// The vectors that are kept for all implementations.
func TestVectors(t *testing.T) {
	image, questions := vectorsOf(t, kept)
	count, err := asked(t, image, questions)
	if err != nil || count < 100 {
		t.Fatalf("%d questions, %v", count, err)
	}
	// The test detects each kind of wrong answer.
	for i, q := range questions {
		if q.what == "window" {
			continue
		}
		wrong := append([]question(nil), questions...)
		last := len(q.numbers) - 1
		wrong[i].numbers = append(append([]uint64(nil), q.numbers[:last]...), q.numbers[last]+1)
		if _, err := asked(t, image, wrong); err == nil {
			t.Fatalf("a wrong answer to %s %x was not seen", q.what, q.key)
		}
	}
}

// images are the images that the tests of kernel/bpf left in the folder SAPWOOD_IMAGES, with their
// questions.
func images(t testing.TB) map[string][2]string {
	folder := os.Getenv("SAPWOOD_IMAGES")
	if folder == "" {
		t.Skip("skipped: SAPWOOD_IMAGES names no folder; ci/go.sh makes it")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.image"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no images in %s, %v", folder, err)
	}
	all := map[string][2]string{}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".image")
		all[filepath.Base(name)] = [2]string{file, name + ".questions"}
	}
	return all
}

// Maps of all kinds that Rust wrote.
func TestImages(t *testing.T) {
	for name, files := range images(t) {
		t.Run(name, func(t *testing.T) {
			image, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			_, questions := vectorsOf(t, files[1])
			if count, err := asked(t, image, questions); err != nil || count < 1000 {
				t.Fatalf("%d questions, %v", count, err)
			}
		})
	}
}
