//go:build !linux

package sapwood

func mapPinned(string) (*mapping, error) { return nil, ErrUnsupported }
