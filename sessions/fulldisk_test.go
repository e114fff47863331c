package sessions_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/state"
)

// smallDisk mounts a disk of 24 MiB where a harness keeps what terminals print, and returns what fills it and what empties it again.
func (h *harness) smallDisk() (fill, empty func()) {
	h.t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		h.t.Skip("only root can make a small disk: what a full one does to terminals is NOT TESTED here")
	}
	dir := filepath.Join(h.dir, "sessions")
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		h.t.Skipf("a small disk could not be mounted (%v): what a full one does to terminals is NOT TESTED here", err)
	}
	h.t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	return func() {
			h.t.Helper()
			f, err := os.Create(filler)
			for chunk := make([]byte, 64<<10); err == nil; {
				_, err = f.Write(chunk)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				h.t.Fatal(err)
			}
			_ = f.Close()
		}, func() {
			h.t.Helper()
			if err := os.Remove(filler); err != nil {
				h.t.Fatal(err)
			}
		}
}

// counted is what seq prints.
func counted(to int) []byte {
	var b []byte
	for i := 1; i <= to; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return b
}

// keeps checks that a session's history has this, every byte once.
func (s *server) keeps(t *testing.T, id string, want []byte) {
	t.Helper()
	var got []byte
	for int64(len(got)) < int64(len(want)) {
		b, off, _, err := s.Output(t.Context(), id, int64(len(got)), 1<<20)
		if err != nil || len(b) == 0 || off != int64(len(got)) {
			t.Fatalf("at %d of %d: %d bytes at %d, %v", len(got), len(want), len(b), off, err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("the history has %d other bytes, wanted %d", len(got), len(want))
	}
}

// Who opens a terminal once there is room again, and before all of its history is back, sees every byte once.
func TestAViewerWaitsForWhatIsFetched(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	fill, empty := h.smallDisk()
	s := h.start()
	row := s.run(t, "sh", "-c", "stty raw -echo; echo ready; read x; seq 1 1000000; sleep 1000")
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "ready\n")
	fill()
	if err := sc.Input(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	want := append([]byte("ready\n"), counted(1_000_000)...)
	eventually(t, "all is printed", func() bool {
		_, _, end, err := s.Output(t.Context(), row.ID, 0, 1)
		return err == nil && end == int64(len(want))
	})
	empty()
	sc = s.watch(t, row.ID, sessions.Attach{})
	sc.shows(t, "\n1000000\n")
	if sc.gaps != 0 {
		t.Errorf("who came then has %d gaps", sc.gaps)
	}
}

// While the server's disk is full a terminal goes on, and once there is room its history has every byte once: also what memory did not
// hold meanwhile, also where the program ended or the server was started anew before there was room.
func TestAFullDiskMakesNoHole(t *testing.T) {
	t.Parallel()
	const last = 1_000_000
	for _, way := range []string{"goes on", "ends", "another server", "ends, another server"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			fill, empty := h.smallDisk()
			h.tune = func(c *sessions.Config) { c.RingBytes = 16 << 20 } // so that the test's viewer may be slow
			s := h.start()
			script := "stty raw -echo; echo ready; read x; seq 1 1000000"
			ends := strings.HasPrefix(way, "ends")
			if !ends {
				script += "; read x; echo over; sleep 1000"
			}
			row := s.run(t, "sh", "-c", script)
			sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
			sc.shows(t, "ready\n")
			fill()
			if err := sc.Input(t.Context(), []byte("\n")); err != nil {
				t.Fatal(err)
			}
			sc.shows(t, "\n1000000\n")
			if sc.gaps != 0 {
				t.Errorf("the viewer has %d gaps", sc.gaps)
			}
			want := append([]byte("ready\n"), counted(last)...)
			switch way {
			case "goes on":
				eventually(t, "viewers see the notice", func() bool {
					notice, _ := sc.field("notice").(string)
					return strings.Contains(notice, "disk is full")
				})
			case "ends":
				s.ended(t, row.ID)
			case "another server":
				s.end()
			case "ends, another server":
				s.ended(t, row.ID)
				s.end()
			}
			empty()
			switch way {
			case "goes on":
				eventually(t, "viewers see that it is over", func() bool { return sc.field("notice") == nil })
			case "ends":
				place, _ := s.manager.Live(h.ws.ID)
				eventually(t, "its place may forget it", func() bool {
					_, err := place.Guest.Process(t.Context(), row.ID)
					return fault.Is(err, fault.NotFound)
				})
			case "another server", "ends, another server":
				s = h.start()
				sc = s.watch(t, row.ID, sessions.Attach{Writer: true})
				eventually(t, "the rest is fetched", func() bool {
					_, _, end, err := s.Output(t.Context(), row.ID, 0, 1)
					return err == nil && end == int64(len(want))
				})
			}
			s.keeps(t, row.ID, want)
			if ends {
				if got := s.ended(t, row.ID); got.State != state.Exited || got.Bytes != int64(len(want)) {
					t.Errorf("it ended as %+v", got)
				}
			} else {
				if err := sc.Input(t.Context(), []byte("\n")); err != nil {
					t.Fatal(err)
				}
				want = append(want, "over\n"...)
				eventually(t, "it goes on", func() bool {
					_, _, end, err := s.Output(t.Context(), row.ID, 0, 1)
					return err == nil && end == int64(len(want))
				})
			}
			s.end()
			s = h.start() // what follows is on disk
			s.keeps(t, row.ID, want)
		})
	}
}
