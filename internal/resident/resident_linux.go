package resident

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram unmaps the pages of this program's own file. They stay in the system's cache, from which used ones come back at once; what
// only the start needed (the packed guest, migrations, tables) no longer counts as ours, and is the first to go when memory is short.
func dropProgram() error {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program's file: %w", err)
	}
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("reading what is mapped: %w", err)
	}
	for _, m := range untouched(raw, exe) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("unmapping pages of the program: %w", errno)
		}
	}
	return nil
}

type mapping struct{ from, to uintptr }

// untouched returns the mappings that contain only what is in the file: they are read-only, and no page of them was changed before that was
// so, as the loader changes some.
func untouched(smaps []byte, file string) (out []mapping) {
	var m mapping
	ours, changed := false, false
	keep := func() {
		if ours && !changed {
			out = append(out, m)
		}
	}
	for line := range bytes.Lines(smaps) {
		f := strings.Fields(string(line))
		if len(f) < 2 {
			continue
		}
		if from, to, ok := strings.Cut(f[0], "-"); ok && len(f) >= 5 { // from-to perm offset device inode path
			keep()
			a, err1 := strconv.ParseUint(from, 16, 64)
			b, err2 := strconv.ParseUint(to, 16, 64)
			m = mapping{uintptr(a), uintptr(b)}
			ours = err1 == nil && err2 == nil && (f[1] == "r--p" || f[1] == "r-xp") && strings.HasSuffix(strings.TrimRight(string(line), "\n"), " "+file)
			changed = false
			continue
		}
		if (f[0] == "Anonymous:" || f[0] == "Swap:") && f[1] != "0" {
			changed = true
		}
	}
	keep()
	return out
}
