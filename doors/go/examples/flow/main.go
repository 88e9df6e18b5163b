// Command flow adds to each address of a text what a table of routes has for it: the longest prefix
// and the next hop.
//
//	flow -routes table.routes < flows.txt
//
// An address is the first word of a line. The table is a saved file, or the directory of a live
// one.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sort"
	"time"

	sapwood "sapwood/doors/go"
)

// counts are the lines by what became of them.
type counts struct {
	lines, bad, unknown int
	// Lines by next hop.
	hops map[string]int
}

// enrich copies lines, and puts a tab, the prefix, a tab and the next hop behind each. A line whose
// first word is no address, or an address without a route, gets two hyphens.
func enrich(table *sapwood.Routes, from io.Reader, to io.Writer) (counts, error) {
	c := counts{hops: map[string]int{}}
	lines := bufio.NewScanner(from)
	out := bufio.NewWriterSize(to, 1<<16)
	var room []byte
	for lines.Scan() {
		line := lines.Bytes()
		c.lines++
		room = append(append(room[:0], line...), '\t')
		word := line
		if end := bytes.IndexAny(line, " \t"); end >= 0 {
			word = line[:end]
		}
		address, err := netip.ParseAddr(string(word))
		found := false
		var net netip.Prefix
		var hop sapwood.Hop
		if err != nil {
			c.bad++
		} else if hop, net, found, err = table.Lookup(address.Unmap()); err != nil {
			return c, err
		} else if !found {
			c.unknown++
		}
		if found {
			text := hop.String()
			c.hops[text]++
			room = append(append(net.AppendTo(room), '\t'), text...)
		} else {
			room = append(room, "-\t-"...)
		}
		if _, err := out.Write(append(room, '\n')); err != nil {
			return c, err
		}
	}
	if err := lines.Err(); err != nil {
		return c, fmt.Errorf("line %d: %w", c.lines+1, err)
	}
	return c, out.Flush()
}

func run() error {
	path := flag.String("routes", "", "the table of routes: a saved file, or the directory of a live table")
	quiet := flag.Bool("count", false, "print no lines, but how many each next hop has")
	flag.Parse()
	table, err := sapwood.OpenRoutes(*path)
	if err != nil {
		return err
	}
	defer table.Close()
	var to io.Writer = os.Stdout
	if *quiet {
		to = io.Discard
	}
	begun := time.Now()
	c, err := enrich(table, os.Stdin, to)
	if err != nil {
		return err
	}
	if *quiet {
		hops := make([]string, 0, len(c.hops))
		for hop := range c.hops {
			hops = append(hops, hop)
		}
		sort.Strings(hops)
		for _, hop := range hops {
			fmt.Printf("%d\t%s\n", c.hops[hop], hop)
		}
	}
	fmt.Fprintf(os.Stderr, "%d lines in %v: %d without an address, %d without a route\n",
		c.lines, time.Since(begun).Round(time.Millisecond), c.bad, c.unknown)
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "flow:", err)
		os.Exit(1)
	}
}
