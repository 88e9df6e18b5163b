package sapwood

type liveParts struct{}
type liveReader struct{}

func openLiveNames(path string) (*Names, error)   { return nil, ErrUnsupported }
func openLiveRoutes(path string) (*Routes, error) { return nil, ErrUnsupported }
func openLiveRanges(path string) (*Ranges, error) { return nil, ErrUnsupported }
