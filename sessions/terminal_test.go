package sessions_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

// counting prints the numbers up to n, byte for byte, in bursts.
func counting(n int) (argv []string, want string) {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	script := fmt.Sprintf(`stty raw -echo; i=0; while [ $i -lt %d ]; do seq $((i+1)) $((i+%d)); i=$((i+%d)); sleep 0.01; done; sleep 0.2`, n, n/40, n/40)
	return []string{"sh", "-c", script}, b.String()
}

func TestEveryViewerGetsEveryByteOverCutsAndRestarts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	argv, want := counting(120_000)
	row := s.run(t, argv...)
	type follower struct {
		got []byte
		sc  *screen
	}
	var all []*follower
	attach := func(f *follower) {
		from := int64(len(f.got))
		f.sc = s.watch(t, row.ID, sessions.Attach{From: &from})
	}
	for range 4 {
		f := &follower{}
		attach(f)
		all = append(all, f)
	}
	leave := func(f *follower) {
		f.sc.Close()
		<-f.sc.over
		f.got = append(f.got, f.sc.got...)
		if f.sc.gaps > 0 {
			t.Fatal("a viewer skipped bytes")
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		for range random.IntN(8) {
			time.Sleep(5 * time.Millisecond) // any moment of the stream
			h.pipes.cut()
		}
		if i := random.IntN(len(all)); round%2 == 0 {
			leave(all[i])
			attach(all[i])
		}
		if round%3 == 2 {
			for _, f := range all {
				leave(f)
			}
			s.end()
			s = h.start()
			for _, f := range all {
				attach(f)
			}
		}
	}
	if got := s.ended(t, row.ID); got.State != state.Exited || got.StateReason != "exited with code 0" || got.Bytes != int64(len(want)) {
		t.Errorf("%s, %s, %d bytes of %d", got.State, got.StateReason, got.Bytes, len(want))
	}
	for i, f := range all {
		<-f.sc.over
		leave(f)
		if string(f.got) != want {
			t.Errorf("viewer %d: %d bytes, want %d; they differ at %d", i, len(f.got), len(want), differ(f.got, want))
		}
	}
	if got := s.output(t, row.ID); got != want {
		t.Error("the stored output differs")
	}
}

func differ(a []byte, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestBytesShownButNotKept: the server is killed after it showed bytes and before it kept them.
func TestBytesShownButNotKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "stty raw -echo; seq 1 20000; read x; seq 20001 30000; sleep 1000")
	sc := s.watch(t, row.ID, sessions.Attach{})
	sc.shows(t, "\n20000\n")
	seen := sc.text()
	s.end()
	cutLog(t, filepath.Join(h.dir, "sessions", row.ID), 7777)
	s = h.start()
	from := int64(len(seen))
	sc = s.watch(t, row.ID, sessions.Attach{From: &from, Writer: true})
	if err := sc.Input(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "\n30000\n")
	var want strings.Builder
	for i := 1; i <= 30000; i++ {
		fmt.Fprintln(&want, i)
	}
	if seen+sc.text() != want.String() || sc.from != from {
		t.Errorf("it went on at %d with %q, want %d", sc.from, sc.text()[:20], from)
	}
	if got := s.output(t, row.ID); got != want.String() {
		t.Error("the log has not every byte")
	}
}

// cutLog takes n bytes off the end of the newest segment of a log.
func cutLog(t *testing.T, dir string, n int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	for _, f := range slices.Backward(files) {
		if st, err := os.Stat(f); err == nil && st.Size() > n {
			if err := os.Truncate(f, st.Size()-n); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no segment in %v", files)
}

func TestSlowViewerSlowsNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.SlowAfter = 300 * time.Millisecond }
	s := h.start()
	row := s.run(t, "sh", "-c", "stty raw -echo; read x; seq 1 300000; sleep 1000")
	slow, err := s.Attach(t.Context(), row.ID, sessions.Attach{From: new(int64)})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fast := s.watch(t, row.ID, sessions.Attach{Writer: true})
	if err := fast.Input(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	fast.shows(t, "\n300000\n")
	buf := make([]byte, 64<<10+9)
	sent := 0
	for {
		f, err := slow.Next(t.Context(), buf)
		if errors.Is(err, sessions.ErrSlow) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if f[0] == 0 {
			sent += len(f) - 9
		}
	}
	if sent != 256<<10 {
		t.Errorf("a viewer that acknowledges nothing was sent %d bytes", sent)
	}
	from := int64(sent)
	rest := s.watch(t, row.ID, sessions.Attach{From: &from})
	rest.shows(t, "\n300000\n")
	if fast.text() != fast.text()[:sent]+rest.text() {
		t.Error("it did not go on where it was")
	}
}

func TestAcknowledgementsOpenTheWindow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.ended(t, s.run(t, "sh", "-c", "stty raw; seq 1 100000").ID)
	v, err := s.Attach(t.Context(), row.ID, sessions.Attach{From: new(int64)})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	buf := make([]byte, 64<<10+9)
	var got []byte
	for len(got) < 256<<10 {
		f, err := v.Next(t.Context(), buf)
		if err != nil {
			t.Fatal(err)
		}
		if f[0] == 0 {
			got = append(got, f[9:]...)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := v.Next(ctx, buf); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("over the window: %v", err)
	}
	v.Ack(1 << 60) // nonsense
	v.Ack(-5)
	v.Ack(1000)
	if f, err := v.Next(t.Context(), buf); err != nil || len(f) != 1009 {
		t.Fatalf("after an acknowledgement of 1000 bytes: %d, %v", len(f), err)
	}
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.MaxLogBytes, c.RingBytes = 64<<10, 4<<10 }
	s := h.start()
	// The last line begins on the left, or the screen may break it at its edge.
	row := s.ended(t, s.run(t, "sh", "-c", "stty raw; seq 1 99999; printf '\\r100000\\n'").ID)
	at := func(off int64) *screen {
		sc := s.watch(t, row.ID, sessions.Attach{From: &off})
		<-sc.over
		return sc
	}
	if sc := at(row.Bytes); sc.text() != "" || sc.exit == nil {
		t.Errorf("from the end: %q", sc.text())
	}
	if sc := at(row.Bytes - 7); sc.text() != "100000\n" || sc.from != row.Bytes-7 {
		t.Errorf("got %q at %d", sc.text(), sc.from)
	}
	if sc := at(-1); sc.fail["code"] != "offset_beyond_end" || !errors.Is(sc.err, sessions.ErrOffset) {
		t.Errorf("from -1: %v, %v", sc.fail, sc.err)
	}
	if sc := at(row.Bytes + 1); sc.fail != nil || sc.from != row.Bytes || !strings.Contains(string(sc.snap), "100000") || sc.exit == nil {
		t.Errorf("from beyond the end: %v, screen at %d of %d: %q, exit %v", sc.fail, sc.from, row.Bytes, sc.snap, sc.exit)
	}
	if sc := at(5); sc.from <= 5 || sc.gaps != 0 || !strings.HasSuffix(sc.text(), "\r100000\n") || sc.from+int64(len(sc.text())) != row.Bytes {
		t.Errorf("from a byte that is kept no longer: %d, %d bytes", sc.from, len(sc.text()))
	}
	b, offset, end, err := s.Output(t.Context(), row.ID, row.Bytes-7, 3)
	if err != nil || string(b) != "100" || offset != row.Bytes-7 || end != row.Bytes {
		t.Errorf("got %q, %d, %d, %v", b, offset, end, err)
	}
	if _, _, _, err := s.Output(t.Context(), row.ID, row.Bytes+1, 3); fault.CodeOf(err) != "offset_beyond_end" {
		t.Errorf("got %v", err)
	}
	if b, offset, _, err := s.Output(t.Context(), row.ID, 0, 10); err != nil || len(b) == 0 || offset == 0 {
		t.Errorf("got %d bytes at %d, %v", len(b), offset, err)
	}
}

func TestPasteOfOneMegabyte(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "stty raw -echo; echo ready; head -c 1048576 | sha256sum; sleep 1000")
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "ready")
	paste := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range paste {
		paste[i] = byte(random.Uint32())
	}
	sum := sha256.Sum256(paste)
	for rest := paste; len(rest) > 0; rest = rest[min(16<<10, len(rest)):] {
		if err := sc.Input(t.Context(), rest[:min(16<<10, len(rest))]); err != nil {
			t.Fatal(err)
		}
	}
	sc.shows(t, hex.EncodeToString(sum[:]))
}

func TestInputSurvivesCuts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "stty raw -echo; echo ready; head -c 20000; sleep 1000")
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "ready\n")
	var want bytes.Buffer
	for i := range 2000 {
		key := fmt.Sprintf("%09d\n", i)
		want.WriteString(key)
		if i%100 == 50 {
			h.pipes.cut()
		}
		if err := sc.Input(t.Context(), []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "everything typed comes back", func() bool { return len(sc.text()) >= want.Len()+6 })
	if got := sc.text()[6:]; got != want.String() {
		t.Errorf("typed bytes were lost or doubled: they differ at %d", differ([]byte(got), want.String()))
	}
}

func TestViewerMayOnlyWatch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "cat")
	sc := s.watch(t, row.ID, sessions.Attach{UserID: "usr_2", Name: "Mika\x1b[31m\u202e"})
	if err := sc.Input(t.Context(), []byte("x")); fault.CodeOf(err) != "read_only" {
		t.Errorf("got %v", err)
	}
	sc.Wish(guest.Size{Cols: 50, Rows: 20})
	sc.TakeSize()
	w := s.watch(t, row.ID, sessions.Attach{UserID: "usr_1", Name: "Ada", Writer: true})
	if err := w.Input(t.Context(), []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "hello")
	eventually(t, "the frame names who typed", func() bool { return sc.field("writer") != nil })
	if got := sc.field("writer").(map[string]any); got["name"] != "Ada" {
		t.Errorf("got %v", got)
	}
	if got := sc.field("size_owner"); got != nil {
		t.Errorf("a viewer owns the size: %v", got)
	}
	list := sc.field("viewers").([]any)
	if len(list) != 2 || list[0].(map[string]any)["name"] != "Mika[31m" || list[0].(map[string]any)["role"] != "viewer" || list[0].(map[string]any)["id"] != sc.field("you") {
		t.Errorf("got %v", list)
	}
}

func TestOneSizeOwner(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.SizeHold = 400 * time.Millisecond }
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Command, Argv: []string{"sh", "-c", "trap 'stty size' WINCH; echo trapped; while :; do sleep 0.05; done"}})
	a := s.watch(t, row.ID, sessions.Attach{UserID: "a", Name: "A", Writer: true})
	a.shows(t, "trapped") // a size that changes before goes unnoticed
	b := s.watch(t, row.ID, sessions.Attach{UserID: "b", Name: "B", Writer: true})
	eventually(t, "the first size", func() bool { return a.cells() == [2]uint16{120, 32} })
	a.Wish(guest.Size{Cols: 159, Rows: 72})
	b.Wish(guest.Size{Cols: 54, Rows: 40})
	a.shows(t, "72 159")
	eventually(t, "both get the size", func() bool { return a.cells() == [2]uint16{159, 72} && b.cells() == a.cells() })
	if owner := b.field("size_owner").(map[string]any); owner["user_id"] != "a" {
		t.Errorf("owner %v", owner)
	}
	a.Wish(guest.Size{Cols: 19, Rows: 40}) // too small
	for i := range uint16(20) {
		a.Wish(guest.Size{Cols: 100 + i, Rows: 50})
	}
	eventually(t, "the last wish counts", func() bool { return b.cells() == [2]uint16{119, 50} })
	if n := strings.Count(a.text(), "\n50 1"); n > 5 {
		t.Errorf("the terminal was resized %d times", n)
	}
	b.TakeSize()
	eventually(t, "B took it", func() bool { return a.cells() == [2]uint16{54, 40} })
	a.Wish(guest.Size{Cols: 90, Rows: 30})
	// B comes back in time and keeps it.
	b.Close()
	back := s.watch(t, row.ID, sessions.Attach{UserID: "b", Name: "B", Writer: true})
	back.Wish(guest.Size{Cols: 60, Rows: 40})
	eventually(t, "B is back", func() bool { return a.cells() == [2]uint16{60, 40} })
	back.Close()
	eventually(t, "A gets it when B stays away", func() bool { return a.cells() == [2]uint16{90, 30} })
	eventually(t, "the size is stored", func() bool { return s.get(t, row.ID).Cols == 90 })
}

func TestTitleAndStateReachViewers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `printf '\033]0;My \001title\007'; read x; printf '\033]777;notify;T;Continue?\007'; read x; sleep 1000`)
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	eventually(t, "the title", func() bool { return sc.field("title") == "My title" })
	if err := sc.Input(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool { return sc.field("state") == "waiting" && sc.field("reason") == "Continue?" })
	late := s.watch(t, row.ID, sessions.Attach{})
	eventually(t, "a late viewer sees the state", func() bool { return late.field("state") == "waiting" })
	if err := sc.Input(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits no more", func() bool { return sc.field("state") == "idle" })
	eventually(t, "the title is stored", func() bool { return s.get(t, row.ID).Title == "My title" })
}

func TestServerEndsViewersWhenItStops(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "echo on; sleep 1000")
	sc := s.watch(t, row.ID, sessions.Attach{})
	sc.shows(t, "on")
	s.end()
	<-sc.over
	if !errors.Is(sc.err, sessions.ErrRestarting) {
		t.Errorf("got %v", sc.err)
	}
	if _, err := s.Start(t.Context(), h.actor, h.ws.ID, sessions.StartRequest{Agent: agents.Shell}); err == nil {
		t.Error("a session was started in a closed room")
	}
	s = h.start()
	if got := s.get(t, row.ID); got.State.Ended() {
		t.Errorf("the session ended with the server: %s, %s", got.State, got.StateReason)
	}
}

func TestOutputGoesOnWhenTheDiskDoesNot(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.RingBytes = 16 << 20 }
	s := h.start()
	row := s.run(t, "sh", "-c", "stty raw -echo; echo ready; read x; seq 1 1000000; sleep 1000")
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "ready\n")
	if err := os.RemoveAll(filepath.Join(h.dir, "sessions")); err != nil { // no new segment can be made
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "sessions"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sc.Input(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "\n1000000\n")
	if sc.gaps != 0 {
		t.Errorf("%d gaps", sc.gaps)
	}
	eventually(t, "viewers see the notice", func() bool { return sc.field("notice") != nil })
	if _, err := s.Start(t.Context(), h.actor, h.ws.ID, sessions.StartRequest{Agent: agents.Shell}); err == nil {
		t.Error("a session without a log was started")
	}
	if rows, err := s.List(t.Context(), h.ws.ID); err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
