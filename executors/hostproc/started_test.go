package hostproc

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

func startedBytes(count int32, rest ...string) []byte {
	return append(binary.NativeEndian.AppendUint32(nil, uint32(count)), strings.Join(rest, "\x00")...)
}

func TestParseStarted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		in        []byte
		args, env []string
		bad       bool
	}{
		{name: "as macOS writes it", in: startedBytes(3, "/opt/guest", "", "", "", "guest", "serve", "--sandbox", "HOME=/Users/a", "PARAWORK_SANDBOX_ID=sbx_1", "", "executable_path=/opt/guest", ""),
			args: []string{"guest", "serve", "--sandbox"}, env: []string{"HOME=/Users/a", "PARAWORK_SANDBOX_ID=sbx_1"}},
		{name: "an empty argument", in: startedBytes(2, "/bin/x", "", "x", "", "A=1", ""), args: []string{"x", ""}, env: []string{"A=1"}},
		{name: "an environment that is not told", in: startedBytes(1, "/bin/x", "x", ""), args: []string{"x"}},
		{name: "nothing", bad: true},
		{name: "cut short", in: startedBytes(5, "/bin/x", "x", ""), bad: true},
		{name: "no path", in: startedBytes(1, "x"), bad: true},
		{name: "a count below nothing", in: startedBytes(-1, "/bin/x", "x", ""), bad: true},
	} {
		args, env, err := parseStarted(c.in)
		if (err != nil) != c.bad || !slices.Equal(args, c.args) || !slices.Equal(env, c.env) {
			t.Errorf("%s: %q, %q, %v", c.name, args, env, err)
		}
	}
}
