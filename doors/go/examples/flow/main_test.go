package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sapwood "sapwood/doors/go"
)

// A million addresses, of which a part is compared with a search at each length.
func TestAMillionAddresses(t *testing.T) {
	program := os.Getenv("SAPWOOD_PROGRAM")
	if program == "" {
		t.Skip("skipped: SAPWOOD_PROGRAM names no program; ci/go.sh builds it")
	}
	random := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		word := random.Uint32()
		if word%4 == 0 {
			return netip.AddrFrom16([16]byte{0x20, 1, byte(word >> 8), byte(word >> 16), byte(word >> 24)})
		}
		return netip.AddrFrom4([4]byte{byte(word >> 24), byte(word >> 16), byte(word >> 8), byte(word)})
	}
	table := map[netip.Prefix]string{}
	var text strings.Builder
	for range 30_000 {
		net := netip.PrefixFrom(address(), 4+random.IntN(25)).Masked()
		table[net] = fmt.Sprint("peer-", random.IntN(50))
	}
	for net, hop := range table {
		fmt.Fprintf(&text, "%v %s\n", net, hop)
	}
	path := filepath.Join(t.TempDir(), "table.routes")
	command := exec.Command(program, "routes", "build", "--quiet", "-o", path, "-")
	command.Stdin = strings.NewReader(text.String())
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatal(string(said), err)
	}
	routes, err := sapwood.OpenRoutes(path)
	if err != nil {
		t.Fatal(err)
	}
	defer routes.Close()

	const many = 1_000_000
	var input, output bytes.Buffer
	for i := range many {
		fmt.Fprintf(&input, "%v %d\n", address(), i)
	}
	asked := strings.Split(input.String(), "\n")
	begun := time.Now()
	c, err := enrich(routes, &input, &output)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lines in %v", c.lines, time.Since(begun))
	answers := strings.Split(output.String(), "\n")
	if c.lines != many || c.bad != 0 || len(answers) != many+1 {
		t.Fatal(c.lines, c.bad, len(answers))
	}
	sum := c.unknown
	for _, count := range c.hops {
		sum += count
	}
	if sum != many {
		t.Fatal(sum)
	}
	for i := 0; i < many; i += 97 {
		address := netip.MustParseAddr(strings.Fields(asked[i])[0])
		wanted := asked[i] + "\t-\t-"
		for length := address.BitLen(); length >= 0; length-- {
			net := netip.PrefixFrom(address, length).Masked()
			if hop, found := table[net]; found {
				wanted = fmt.Sprintf("%s\t%v\t%s", asked[i], net, hop)
				break
			}
		}
		if answers[i] != wanted {
			t.Fatalf("%q, not %q", answers[i], wanted)
		}
	}
}

func TestOtherLines(t *testing.T) {
	routes, err := sapwood.OpenRoutes("../../../../core/sapwood/tests/files/nulls.routes")
	if err != nil {
		t.Fatal(err)
	}
	defer routes.Close()
	var output bytes.Buffer
	input := "10.1.2.3 80\n\nword\n192.0.2.1\n::ffff:10.0.0.1\tx y\n8.8.8.8"
	c, err := enrich(routes, strings.NewReader(input), &output)
	wanted := "10.1.2.3 80\t10.0.0.0/8\tblackhole\n\t-\t-\nword\t-\t-\n192.0.2.1\t192.0.2.0/24\tcore\n" +
		"::ffff:10.0.0.1\tx y\t10.0.0.0/8\tblackhole\n8.8.8.8\t-\t-\n"
	if output.String() != wanted || err != nil || c.lines != 6 || c.bad != 2 || c.unknown != 1 {
		t.Errorf("%q, %+v, %v", output.String(), c, err)
	}
}
