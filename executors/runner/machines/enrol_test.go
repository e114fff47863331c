package machines_test

import (
	"crypto/ed25519"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

func TestATokenEnrolsOneMachine(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		tok, text := h.token("Work Laptop", false)
		parsed, err := wire.ParseToken(text)
		if err != nil {
			t.Fatal(err)
		}
		d := newDevice(h)
		if err := d.enrol(text, ""); err != nil {
			t.Fatal(err)
		}
		if !parsed.Knows(d.server) || d.said.Name != "Work Laptop" || d.said.Team != h.team.Slug {
			t.Errorf("%+v", d.said)
		}
		first := d.said
		if err := d.enrol(text, ""); err != nil || d.said.RunnerID != first.RunnerID {
			t.Errorf("the same machine, whose answer was lost: %+v %v", d.said, err)
		}
		if err := newDevice(h).enrol(text, ""); fault.CodeOf(err) != "runner_token_ended" || !strings.Contains(err.Error(), "used") {
			t.Errorf("a second machine: %v", err)
		}
		if left, err := h.Tokens(t.Context(), h.team.ID); err != nil || len(left) != 0 {
			t.Errorf("%+v %v", left, err)
		}
		all := h.Machines(t.Context(), h.team.ID)
		if len(all) != 1 || all[0].Online || all[0].UserID != h.user.ID || all[0].Hello.Hostname != "laptop" || all[0].Hello.Folders[0].Path != "/home/ada/work" {
			t.Errorf("%+v", all)
		}
		if len(h.Machines(t.Context(), "team_other")) != 0 || len(h.Machines(t.Context(), "")) != 1 {
			t.Error("machines of other teams")
		}
		for name, text := range map[string]string{
			"another secret": wire.Token{ID: parsed.ID, Secret: strings.Repeat("0", 43), Print: parsed.Print}.String(),
			"another id":     wire.Token{ID: strings.Repeat("0", 26), Secret: parsed.Secret, Print: parsed.Print}.String(),
			"nonsense":       "pw_runner_x",
		} {
			if err := newDevice(h).enrol(text, ""); fault.CodeOf(err) != "runner_token_invalid" {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, late := h.token("", false)
		h.clock.move(time.Hour + time.Second)
		if err := newDevice(h).enrol(late, ""); fault.CodeOf(err) != "runner_token_ended" || !strings.Contains(err.Error(), "expired") {
			t.Errorf("after an hour: %v", err)
		}
		if kept, err := h.Token(t.Context(), tok.ID); err != nil || strings.Contains(string(kept.Hash), parsed.Secret) {
			t.Errorf("%v", err)
		}
	})
}

func TestAReusableTokenEnrolsManyUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		tok, text := h.token("", true)
		h.clock.move(1000 * time.Hour)
		var names []string
		for _, name := range []string{"", "Rack", "", "Rack"} {
			d := newDevice(h)
			if err := d.enrol(text, name); err != nil {
				t.Fatal(err)
			}
			names = append(names, d.said.Name)
		}
		if got := strings.Join(names, ","); got != "laptop,Rack,laptop 2,Rack 2" {
			t.Errorf("names %s", got)
		}
		if left, err := h.Tokens(t.Context(), h.team.ID); err != nil || len(left) != 1 || left[0].Uses != 4 {
			t.Errorf("%+v %v", left, err)
		}
		if err := h.RevokeToken(t.Context(), tok.ID); err != nil {
			t.Fatal(err)
		}
		if err := newDevice(h).enrol(text, ""); fault.CodeOf(err) != "runner_token_ended" {
			t.Errorf("after it was revoked: %v", err)
		}
		if n := len(h.Machines(t.Context(), h.team.ID)); n != 4 {
			t.Errorf("%d machines", n)
		}
	})
}

// Two that come at once with a token for one: one is let in.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		_, text := h.token("m", false)
		errs := make([]error, 6)
		var all sync.WaitGroup
		for i := range errs {
			d := newDevice(h)
			all.Go(func() { errs[i] = d.enrol(text, "") })
		}
		all.Wait()
		in := 0
		for _, err := range errs {
			if err == nil {
				in++
			} else if fault.CodeOf(err) != "runner_token_ended" {
				t.Error(err)
			}
		}
		if in != 1 || len(h.Machines(t.Context(), h.team.ID)) != 1 {
			t.Errorf("%d were let in", in)
		}
	})
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	_, text := h.token("m", true)
	try := func(change func(*wire.Enrol)) error {
		e := wire.Enrol{Token: text, PublicKey: make([]byte, 32), Hello: hello()}
		change(&e)
		_, err := h.Enrol(t.Context(), e, "192.0.2.9")
		return err
	}
	for code, change := range map[string]func(*wire.Enrol){
		"invalid_key":          func(e *wire.Enrol) { e.PublicKey = e.PublicKey[:31] },
		"invalid_name":         func(e *wire.Enrol) { e.Name = "a\x1b[2Jb" },
		"runner_hello_invalid": func(e *wire.Enrol) { e.Hello.Mode = "root" },
		"runner_version":       func(e *wire.Enrol) { e.Hello.Version = wire.Version + 1 },
	} {
		if err := try(change); fault.CodeOf(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	// Guessing is slowed, wherever the guesses differ, and others are not held up by it.
	var err error
	for range 100 {
		if err = try(func(e *wire.Enrol) { e.Token = "pw_runner_guess" }); fault.Is(err, fault.RateLimited) {
			break
		}
	}
	if !fault.Is(err, fault.RateLimited) {
		t.Errorf("guesses: %v", err)
	}
	if err := newDevice(h).enrol(text, ""); err != nil {
		t.Errorf("another address: %v", err)
	}
	h.clock.move(time.Hour)
	if err := try(func(*wire.Enrol) {}); err != nil {
		t.Errorf("an hour later: %v", err)
	}
	// Who may not work in the team has no machines there.
	viewer := h.member(accounts.Member)
	_, token, err := h.NewToken(t.Context(), h.team.ID, viewer.ID, "v", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.NewAccounts(h.db).SetRole(t.Context(), h.team.ID, viewer.ID, accounts.Viewer); err != nil {
		t.Fatal(err)
	}
	if err := newDevice(h).enrol(token, ""); fault.CodeOf(err) != "runner_owner_gone" {
		t.Errorf("a viewer's: %v", err)
	}
	off := h.open(func(c *machines.Config) { c.Enabled = false })
	if _, _, err := off.NewToken(t.Context(), h.team.ID, h.user.ID, "", false); fault.CodeOf(err) != "runners_disabled" {
		t.Errorf("switched off: %v", err)
	}
	if _, err := off.Enrol(t.Context(), wire.Enrol{Token: text, PublicKey: make([]byte, 32), Hello: hello()}, ""); fault.CodeOf(err) != "runners_disabled" {
		t.Errorf("switched off: %v", err)
	}
	h.stop()
}

func TestTheServersKeyIsKeptSealed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		other := machines.New(machines.Config{Store: store.NewMachines(db), Accounts: h.people, Sealer: h.people, Events: h.bus})
		keys := make([]ed25519.PrivateKey, 2)
		var both sync.WaitGroup
		for i, s := range []*machines.Service{h.Service, other} {
			both.Go(func() {
				var err error
				if keys[i], err = s.ServerKey(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if !keys[0].Equal(keys[1]) {
			t.Error("two keys")
		}
		kept, err := store.NewMachines(db).InstanceKey(t.Context(), "runner")
		if err != nil || strings.Contains(string(kept.Sealed), string(keys[0].Seed())) {
			t.Errorf("%v", err)
		}
		lost := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db), Key: []byte(strings.Repeat("x", 32))})
		s := machines.New(machines.Config{Store: store.NewMachines(db), Accounts: lost, Sealer: lost, Events: h.bus, Enabled: true})
		if _, err := s.ServerKey(t.Context()); fault.CodeOf(err) != "runner_key_unreadable" {
			t.Errorf("another secret.key: %v", err)
		}
		_, text := h.token("", false)
		if err := newDevice(h).enrol(text, ""); err != nil {
			t.Fatal(err)
		}
		if n, err := s.RenewServerKey(t.Context()); err != nil || n != 1 {
			t.Errorf("%d %v", n, err)
		}
		if k, err := s.ServerKey(t.Context()); err != nil || k.Equal(keys[0]) {
			t.Errorf("not renewed: %v", err)
		}
		if all, err := store.NewMachines(db).Runners(t.Context()); err != nil || all[0].Key != nil {
			t.Errorf("its machines keep their keys: %+v %v", all, err)
		}
	})
}
