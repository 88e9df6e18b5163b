package sapwood

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The time between two looks for a map that is not there yet.
const waitPause = 2 * time.Millisecond

// WaitForMap waits until a directory has a live map, for readers that come before the map's writer.
// It looks every two milliseconds, and reads nothing of the map.
//
// Errors: that of the context, when it is done first, beside ErrNotYet; those of the system, such
// as fs.ErrPermission.
func WaitForMap(ctx context.Context, path string) error {
	// A map is there whole or not at all, and control comes last.
	for control := filepath.Join(path, "control"); ; {
		_, err := os.Stat(control)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", path, ErrNotYet, ctx.Err())
		case <-time.After(waitPause):
		}
	}
}
