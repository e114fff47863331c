package resident

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Only what cannot differ from the file is let go: the loader has changed pages that cannot be written to any more.
func TestUntouchedPartsOfAProgram(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-00403000 r--p 00000000 08:01 7  /usr/bin/the program
Rss:                  12 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
00403000-01ef3000 r-xp 00003000 08:01 7  /usr/bin/the program
Anonymous:             0 kB
Swap:                  0 kB
04451000-04454000 r--p 04050000 08:01 7  /usr/bin/the program
Anonymous:            12 kB
Swap:                  0 kB
04454000-04455000 r--p 04053000 08:01 7  /usr/bin/the program
Anonymous:             0 kB
Swap:                  4 kB
04455000-04599000 rw-p 04054000 08:01 7  /usr/bin/the program
Anonymous:             0 kB
Swap:                  0 kB
7f9efc4fd000-7f9efc653000 r-xp 00000000 08:01 9  /usr/lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
7f9efd000000-7f9efd001000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	got := untouched([]byte(smaps), "/usr/bin/the program")
	if len(got) != 2 || got[0] != (mapping{0x400000, 0x403000}) || got[1] != (mapping{0x403000, 0x1ef3000}) {
		t.Errorf("%x", got)
	}
}

// A program whose pages were let go runs on, and takes less memory.
func TestProgramPagesAreLetGo(t *testing.T) {
	resident := func() int {
		raw, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(string(regexp.MustCompile(`RssFile:\s+(\d+)`).FindSubmatch(raw)[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := resident()
	if err := dropProgram(); err != nil {
		t.Fatal(err)
	}
	if after := resident(); after >= before {
		t.Errorf("%d kB of files in memory before, %d after", before, after)
	}
}
