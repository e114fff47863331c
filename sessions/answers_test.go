package sessions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions"
)

// listening prints every byte it is typed as two hexadecimal digits.
const listening = `stty raw -echo min 1; `

const hexOf = `od -An -v -tx1 -w1`

// TestColorsOfTheStarter: a program that asks before anybody watches gets the colours of the person who started it.
func TestColorsOfTheStarter(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.actor.User.LightTerminal = true
	s := h.start()
	row := s.run(t, "sh", "-c", listening+`printf '\033]11;?\007'; head -c 24 | tr -d '\033\007'`)
	s.ended(t, row.ID)
	if got := s.output(t, row.ID); !strings.Contains(got, "]11;rgb:f6f6/f7f7/f9f9") {
		t.Errorf("the program got %q", got)
	}
}

// TestQuestionsAreAnsweredOnce: however many watch, come back or restart the server, a program gets one answer.
func TestQuestionsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", listening+`printf '\033[c\033[7;3H\033[6n\033]11;?\007\033]52;c;?\007ready'; `+hexOf)
	hex := func(text string) string {
		var b strings.Builder
		for _, c := range []byte(text) {
			b.WriteString(" " + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]) + "\n")
		}
		return b.String()
	}
	want := hex("\x1b[?62;22c\x1b[7;3R\x1b]11;rgb:0b0b/0d0d/1010\x07\x1b]52;c;\x07")
	var all []*screen
	for range 3 {
		all = append(all, s.watch(t, row.ID, sessions.Attach{Writer: true}), s.attach(t, row.ID, sessions.Attach{Writer: true}))
	}
	all[0].shows(t, want)
	for range 2 {
		s.end()
		s = h.start()
		w := s.watch(t, row.ID, sessions.Attach{Writer: true})
		if err := w.Input(t.Context(), []byte("k")); err != nil {
			t.Fatal(err)
		}
		want += hex("k")
		w.shows(t, want)
		if got := w.text(); !strings.HasSuffix(got, want) || strings.Count(got, " ") != strings.Count(want, " ") {
			t.Errorf("typed\n%s\nwant\n%s", got, want)
		}
	}
}

// TestQuestionsOfADeadServerAreAnswered: asked while no server lived, or of one that died before it answered.
func TestQuestionsOfADeadServerAreAnswered(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	flag := filepath.Join(h.dir, "ask")
	row := s.run(t, "sh", "-c", listening+`printf 'first'; while [ ! -e `+flag+` ]; do sleep 0.01; done; printf '\033[5nasked'; head -c 4 | `+hexOf+`; printf 'done'; sleep 1000`)
	s.watch(t, row.ID, sessions.Attach{}).shows(t, "first")
	s.end()
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	w := s.watch(t, row.ID, sessions.Attach{})
	w.shows(t, "done")
	if got := w.text(); !strings.Contains(got, " 1b\n 5b\n 30\n 6e\n") {
		t.Errorf("%q", got)
	}
	// The bytes are in the log, and nobody has noted that they were answered.
	row = s.run(t, "sh", "-c", listening+`printf 'first\033[5n'; head -c 4 | `+hexOf+`; printf 'heard'; head -c 4 | `+hexOf+`; printf 'done'; sleep 1000`)
	w = s.watch(t, row.ID, sessions.Attach{})
	w.shows(t, "heard")
	eventually(t, "the answer is noted", func() bool {
		_, err := os.Stat(filepath.Join(h.dir, "sessions", row.ID, "answered"))
		return err == nil
	})
	s.end()
	for _, f := range []string{"answered", "screen"} {
		if err := os.Remove(filepath.Join(h.dir, "sessions", row.ID, f)); err != nil {
			t.Fatal(err)
		}
	}
	s = h.start()
	s.watch(t, row.ID, sessions.Attach{}).shows(t, "done")
}

// TestAnswersWaitForTheEndOfAPaste: a paste that comes in pieces arrives as one.
func TestAnswersWaitForTheEndOfAPaste(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", listening+`printf ready; head -c 8 >/dev/null; printf '\033[5nasked'; head -c 12 | od -An -c; printf 'done'; sleep 1000`)
	w := s.watch(t, row.ID, sessions.Attach{Writer: true})
	w.shows(t, "ready")
	for _, piece := range []string{"\x1b[200~ab", "cd", "\x1b[201~"} {
		if err := w.Input(t.Context(), []byte(piece)); err != nil {
			t.Fatal(err)
		}
		if piece == "\x1b[200~ab" {
			w.shows(t, "asked")
			time.Sleep(30 * time.Millisecond) // an answer that did not wait would be typed by now
		}
	}
	w.shows(t, "done")
	if got := strings.Join(strings.Fields(w.text()), " "); !strings.Contains(got, "c d 033 [ 2 0 1 ~ 033 [ 0 n") {
		t.Errorf("%q", got)
	}
}

// TestColorsOfWhoSizes: programs get the theme of the viewer who sizes the terminal.
func TestColorsOfWhoSizes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", listening+`printf ready; while head -c 1 >/dev/null; do printf '\033]11;?\007'; head -c 24 | tr -d '\033\007'; printf '\r\n'; done`)
	light := s.watch(t, row.ID, sessions.Attach{UserID: "a", Writer: true})
	dark := s.watch(t, row.ID, sessions.Attach{UserID: "b", Writer: true})
	guestOnly := s.watch(t, row.ID, sessions.Attach{UserID: "c"})
	ask := func(want string) {
		t.Helper()
		if err := light.Input(t.Context(), []byte("?")); err != nil {
			t.Fatal(err)
		}
		light.shows(t, want+"\r\n")
	}
	light.shows(t, "ready")
	ask("rgb:0b0b/0d0d/1010")
	light.Colors([9]byte{0, 0, 0, 0xff, 0xfe, 0xfd, 1, 1, 1})
	dark.Colors([9]byte{0xff, 0xff, 0xff, 1, 2, 3, 1, 1, 1})
	guestOnly.Colors([9]byte{9, 9, 9, 9, 9, 9, 9, 9, 9})
	if err := light.TakeSize(); err != nil {
		t.Fatal(err)
	}
	ask("rgb:ffff/fefe/fdfd")
	if err := dark.TakeSize(); err != nil {
		t.Fatal(err)
	}
	ask("rgb:0101/0202/0303")
}
