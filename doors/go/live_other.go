//go:build !linux

package sapwood

import "os"

func mapRoomy(*os.File, int) (*mapping, error) { return nil, ErrUnsupported }

func registerAt(string, string, *liveParts) (*liveReader, error) { return nil, ErrUnsupported }
