package hostproc

import (
	"bytes"
	"encoding/binary"
	"errors"
)

var errStarted = errors.New("the kernel's data about how a process was started is not understood")

// parseStarted parses what macOS reports about how a process was started (KERN_PROCARGS2, as ps reads it): the number of arguments, the path
// of the program, NULs up to a word boundary, the arguments and then the environment, each ended by NUL. The process may have overwritten
// all of it.
func parseStarted(b []byte) (args, env []string, err error) {
	if len(b) < 4 {
		return nil, nil, errStarted
	}
	count := int(int32(binary.NativeEndian.Uint32(b)))
	_, rest, ok := bytes.Cut(b[4:], []byte{0})
	if !ok || count < 0 {
		return nil, nil, errStarted
	}
	rest = bytes.TrimLeft(rest, "\x00")
	for len(rest) > 0 {
		entry, after, _ := bytes.Cut(rest, []byte{0})
		rest = after
		switch {
		case len(args) < count:
			args = append(args, string(entry))
		case len(entry) == 0: // followed by data for the kernel's own programs
			return args, env, nil
		default:
			env = append(env, string(entry))
		}
	}
	if len(args) < count {
		return nil, nil, errStarted
	}
	return args, env, nil
}
