// Opens counts the files that are opened on the machine, by path, and prints those that were opened
// most often. The program in the kernel (opens.bpf.c) writes the counts into a map, and this
// program reads them there. README.md has the commands.
package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	sapwood "sapwood/doors/go"
)

// count is a path and how often it was opened.
type count struct {
	path  string
	times uint64
}

// counts reads the counts of the paths that begin with a prefix, in order of paths.
func counts(opens *sapwood.Map, prefix string) ([]count, error) {
	var all []count
	walk := opens.Prefix([]byte(prefix))
	for path, value := range walk.All() {
		all = append(all, count{string(path), binary.LittleEndian.Uint64(value)})
	}
	return all, walk.Err()
}

// attach attaches the program that is pinned in a folder to the tracepoint of the system call. The
// kernel's list of tracepoints must be mounted: mount -t tracefs tracefs /sys/kernel/tracing.
func attach(folder string) (link.Link, error) {
	program, err := ebpf.LoadPinnedProgram(filepath.Join(folder, "prog-count_open"), nil)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	return link.Tracepoint("syscalls", "sys_enter_openat", program, nil)
}

func run(folder, prefix string, most int, every time.Duration) (err error) {
	arena, err := sapwood.OpenArena(filepath.Join(folder, "arena"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close()) }()
	opens, err := arena.Map("opens")
	if err != nil {
		return err
	}
	attached, err := attach(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, attached.Close()) }()

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	for over := false; !over; {
		select {
		case <-interrupted:
			over = true
		case <-time.After(every):
		}
		all, err := counts(opens, prefix)
		if err != nil {
			return err
		}
		slices.SortStableFunc(all, func(a, b count) int { return cmp.Compare(b.times, a.times) })
		fmt.Printf("%d paths\n", len(all))
		for _, c := range all[:min(most, len(all))] {
			fmt.Printf("%d\t%s\n", c.times, c.path)
		}
	}
	return nil
}

func main() {
	prefix := flag.String("prefix", "", "the beginning of the paths to show")
	most := flag.Int("most", 20, "how many paths to show")
	every := flag.Duration("every", time.Second, "how often to show them")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: opens [options] FOLDER\nFOLDER has the pins of the arena and the program.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *prefix, *most, *every); err != nil {
		fmt.Fprintln(os.Stderr, "opens:", err)
		os.Exit(1)
	}
}
