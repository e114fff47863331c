package daemon

import (
	"context"
	"encoding/hex"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxPorts bounds the reported listening ports.
const maxPorts = 256

// listener is a TCP socket that listens in the guest's network namespace.
type listener struct {
	at    netip.AddrPort
	inode string
}

// listening returns the TCP ports members listen on, sorted.
func listening(members map[int]member) []int {
	if len(members) == 0 {
		return nil
	}
	byInode := make(map[string]int)
	for _, l := range listenersNow() {
		byInode[l.inode] = int(l.at.Port())
	}
	found := make(map[int]bool)
	for inode := range heldBy(members, byInode) {
		found[byInode[inode]] = true
	}
	ports := slices.Sorted(maps.Keys(found))
	return ports[:min(len(ports), maxPorts)]
}

// listenersNow reads the kernel's tables (proc_net_tcp: address and port in hexadecimal, each 32 bits of the address in the machine's own
// byte order; the state in the 4th column, the inode in the 10th).
func listenersNow() []listener {
	var out []listener
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" { // LISTEN
				continue
			}
			if at, ok := parseListener(f[1]); ok {
				out = append(out, listener{at, f[9]})
			}
		}
	}
	return out
}

func parseListener(text string) (netip.AddrPort, bool) {
	addr, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	b, herr := hex.DecodeString(addr)
	if err != nil || herr != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(b, 4) { // little-endian: every processor the guest is built for
		slices.Reverse(word)
	}
	ip, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), true
}

// heldBy returns which of the sockets, identified by inode, members have open.
func heldBy[V any](members map[int]member, inodes map[string]V) map[string]bool {
	out := make(map[string]bool)
	if len(inodes) == 0 {
		return out
	}
	for pid := range members {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			link, err := os.Readlink(dir + fd.Name())
			inode, ok := strings.CutPrefix(link, "socket:[")
			if err != nil || !ok {
				continue
			}
			inode = strings.TrimSuffix(inode, "]")
			if _, ok := inodes[inode]; ok {
				out[inode] = true
			}
		}
	}
	return out
}

// listeners remembers which listening sockets belong to the sandbox, so that not every connection searches every open file. A
// socket's inode is unique while it is open.
type listeners struct {
	mu   sync.Mutex
	held map[string]bool
}

// own reports whether members hold the sockets that a connection to at could reach: those bound to that address, or if there are
// none, those bound to every address. All of them must be held, for the kernel may choose any.
func (l *listeners) own(_ context.Context, at netip.AddrPort, members func() map[int]member) bool {
	exact, wild := map[string]bool{}, map[string]bool{}
	all := make(map[string]bool)
	for _, found := range listenersNow() {
		all[found.inode] = true
		if found.at.Port() != at.Port() {
			continue
		}
		switch addr := found.at.Addr(); {
		case addr == at.Addr():
			exact[found.inode] = true
		case addr.IsUnspecified() && (addr.Is6() || at.Addr().Is4()): // "::" takes connections by IPv4 too
			wild[found.inode] = true
		}
	}
	reached := exact
	if len(exact) == 0 {
		reached = wild
	}
	l.mu.Lock()
	maps.DeleteFunc(l.held, func(inode string, _ bool) bool { return !all[inode] })
	known := l.knows(reached)
	l.mu.Unlock()
	if len(reached) == 0 || known {
		return known
	}
	held := heldBy(members(), reached)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[string]bool)
	}
	maps.Copy(l.held, held)
	return l.knows(reached)
}

// knows reports whether all of inodes, of which there is at least one, are the sandbox's. The caller holds l.mu.
func (l *listeners) knows(inodes map[string]bool) bool {
	for inode := range inodes {
		if !l.held[inode] {
			return false
		}
	}
	return len(inodes) > 0
}
