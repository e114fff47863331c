//go:build linux

package docker_test

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
)

// service answers everybody on this machine with a word.
func service(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "neighbour\n")
			_ = c.Close()
		}
	}()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// A container whose machine's owner has chosen so has the machine's network; every other has none.
func TestHostNetwork(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	ask := "bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + service(t) + " && cat <&3'"
	s := boxed(t)
	s.Network = executors.Network{Mode: executors.NetworkHost}
	if out := run(t, create(t, e, s), ask); out != "neighbour\n" {
		t.Errorf("with the machine's network: %q", out)
	}
	s = boxed(t)
	if out := run(t, create(t, e, s), ask); !strings.Contains(out, "refused") {
		t.Errorf("without it: %q", out)
	}
}
