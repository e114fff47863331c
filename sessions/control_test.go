package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/journal"
)

// keyboard is what a state frame says of it.
func (sc *screen) keyboard() (holder string, asking []string) {
	k, _ := sc.field("keyboard").(map[string]any)
	if k == nil {
		return "", nil
	}
	for _, a := range k["asking"].([]any) {
		asking = append(asking, a.(map[string]any)["user_id"].(string))
	}
	return k["user_id"].(string), asking
}

func control(t *testing.T, sc *screen, do sessions.Control, to, code string) {
	t.Helper()
	if err := sc.Control(t.Context(), do, to); fault.CodeOf(err) != code {
		t.Fatalf("%s: got %v, want %q", do, err, code)
	}
}

// types types a line into cat and, when it is to be taken, waits until it has come back.
func types(t *testing.T, sc *screen, text, code string) {
	t.Helper()
	if err := sc.Input(t.Context(), []byte(text)); fault.CodeOf(err) != code {
		t.Fatalf("typing: got %v, want %q", err, code)
	}
	if line := strings.TrimSuffix(text, "\n"); code == "" && line != text {
		sc.shows(t, line+"\r\n"+line+"\r\n")
	}
}

func TestKeyboardIsHeldAskedForAndHandedOver(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "cat")
	ada := s.watch(t, row.ID, sessions.Attach{UserID: "ada", Name: "Ada", Writer: true})
	bob := s.watch(t, row.ID, sessions.Attach{UserID: "bob", Name: "Bob", Writer: true})
	eve := s.watch(t, row.ID, sessions.Attach{UserID: "eve", Name: "Eve"})

	// Without a holder everybody who may type types.
	types(t, ada, "a\n", "")
	ada.shows(t, "a\r\na\r\n") // else its echo and the next line's may come in any order
	types(t, bob, "b\n", "")
	control(t, eve, sessions.Hold, "", "read_only")
	control(t, bob, sessions.Release, "", "keyboard_not_held")

	control(t, ada, sessions.Hold, "", "")
	eventually(t, "everybody sees who holds it", func() bool { who, _ := eve.keyboard(); return who == "ada" })
	types(t, bob, "lost\n", "keyboard_held")
	if err := s.Input(t.Context(), h.actor, row.ID, "lost\n"); fault.CodeOf(err) != "keyboard_held" {
		t.Errorf("the API typed past the holder: %v", err)
	}
	if err := bob.TakeSize(); fault.CodeOf(err) != "keyboard_held" {
		t.Errorf("the size was taken from the holder: %v", err)
	}
	control(t, bob, sessions.Hold, "", "keyboard_held")
	control(t, bob, sessions.Give, "bob", "keyboard_not_held")
	types(t, ada, "mine\n", "")

	control(t, bob, sessions.Ask, "", "")
	control(t, bob, sessions.Ask, "", "") // twice is once
	eventually(t, "the holder sees who asks", func() bool { _, asking := ada.keyboard(); return len(asking) == 1 && asking[0] == "bob" })
	control(t, ada, sessions.Decline, "bob", "")
	eventually(t, "no means no", func() bool { _, asking := bob.keyboard(); return len(asking) == 0 })
	control(t, bob, sessions.Ask, "", "")
	control(t, ada, sessions.Give, "eve", "not_watching") // watches, may not type
	control(t, ada, sessions.Give, "bob", "")
	eventually(t, "it is Bob's", func() bool { who, asking := ada.keyboard(); return who == "bob" && len(asking) == 0 })
	types(t, ada, "lost\n", "keyboard_held")
	types(t, bob, "bobs\n", "")
	control(t, bob, sessions.Release, "", "")
	eventually(t, "it is everybody's", func() bool { who, _ := eve.keyboard(); return who == "" })
	types(t, ada, "end\n", "")
	ada.shows(t, "end\r\nend\r\n")
	var said []string
	eventually(t, "the record has it", func() bool {
		entries, _, err := s.Journal(t.Context(), row.ID, history.JournalQuery{Limit: 100, Kinds: []journal.Kind{journal.Control}})
		if err != nil {
			t.Fatal(err)
		}
		said = nil
		for _, e := range entries {
			said = append(said, string(e.Data))
		}
		return len(said) == 6
	})
	if !strings.Contains(said[0], `"hold"`) || !strings.Contains(said[1], `"ask"`) || !strings.Contains(said[4], `"bob"`) || !strings.Contains(said[5], `"release"`) {
		t.Errorf("the record says %v", said)
	}
	if got, want := s.output(t, row.ID), "a\r\na\r\nb\r\nb\r\nmine\r\nmine\r\nbobs\r\nbobs\r\nend\r\nend\r\n"; got != want {
		t.Errorf("typed %q, want %q", got, want)
	}
}

func TestAdminTakesTheKeyboard(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "cat")
	ada := s.watch(t, row.ID, sessions.Attach{UserID: "ada", Name: "Ada", Writer: true})
	boss := s.watch(t, row.ID, sessions.Attach{UserID: "boss", Name: "Boss", Writer: true, Takes: true})
	control(t, ada, sessions.Hold, "", "")
	eventually(t, "the boss may take it", func() bool { return boss.field("may_take") == true && ada.field("may_take") == false })
	control(t, boss, sessions.Hold, "", "")
	types(t, ada, "x", "keyboard_held")
	types(t, boss, "x\n", "")
}

func TestKeyboardOutlivesAReloadAndNotItsHolder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.SizeHold = 500 * time.Millisecond }
	s := h.start()
	row := s.run(t, "cat")
	ada := s.watch(t, row.ID, sessions.Attach{UserID: "ada", Name: "Ada", Writer: true})
	bob := s.watch(t, row.ID, sessions.Attach{UserID: "bob", Name: "Bob", Writer: true})
	control(t, ada, sessions.Hold, "", "")
	second := s.watch(t, row.ID, sessions.Attach{UserID: "ada", Name: "Ada", Writer: true})
	types(t, second, "1\n", "") // it is hers on all her screens
	ada.Close()
	second.Close()
	types(t, bob, "x", "keyboard_held")
	back := s.watch(t, row.ID, sessions.Attach{UserID: "ada", Name: "Ada", Writer: true})
	eventually(t, "she kept it over the reload", func() bool { who, _ := back.keyboard(); return who == "ada" })
	types(t, back, "2\n", "")
	back.Close()
	eventually(t, "it is given back when she stays away", func() bool { who, _ := bob.keyboard(); return who == "" })
	types(t, bob, "3\n", "")
	bob.shows(t, "3\r\n3\r\n")
}

func TestWatchersAreNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "cat")
	before := s.bus.count()
	a := s.watch(t, row.ID, sessions.Attach{UserID: "ada", Name: "Ada", Writer: true})
	s.watch(t, row.ID, sessions.Attach{UserID: "ada", Name: "Ada"})
	s.watch(t, row.ID, sessions.Attach{UserID: "eve", Name: "Eve"})
	got := s.get(t, row.ID).Watchers
	want := []sessions.Watcher{{UserID: "ada", Name: "Ada", Writer: true, Screens: 2}, {UserID: "eve", Name: "Eve", Screens: 1}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	eventually(t, "others are notified", func() bool { return s.bus.count() > before })
	a.Wish(guest.Size{Cols: 100, Rows: 30})
	control(t, a, sessions.Hold, "", "")
	if got := s.get(t, row.ID).Watchers; !got[0].Holds {
		t.Errorf("got %+v", got)
	}
	types(t, a, "x", "")
	eventually(t, "viewers see who types, with the time", func() bool {
		at, _ := a.field("writer_at").(float64)
		return at > 0 && a.field("writer").(map[string]any)["user_id"] == "ada"
	})
}
