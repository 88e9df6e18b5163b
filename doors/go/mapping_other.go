//go:build !linux

package sapwood

// mapping is the memory of an arena in this process.
type mapping struct{ words }

func mapPinned(string) (*mapping, error) { return nil, ErrUnsupported }

func (m *mapping) unmap() error { return nil }
