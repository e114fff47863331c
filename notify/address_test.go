package notify_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// A message about one thing is tried until it arrives, signed with the key of its address, which is forgotten then.
func TestAddress(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		r := newReceiver(t)
		r.answer = func(n int) int {
			return map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusNoContent}[n == 1]
		}
		for name, c := range map[string]struct {
			a    notify.Address
			code string
		}{
			"no URL": {notify.Address{URL: "file:///etc/passwd", Key: "0123456789abcdef"}, "invalid_url"},
			"no key": {notify.Address{URL: r.URL, Key: "short"}, "invalid_webhook_secret"},
		} {
			if _, _, err := h.KeepAddress(t.Context(), h.team.ID, "job_0", h.user.ID, c.a); fault.CodeOf(err) != c.code {
				t.Errorf("%s: %v", name, err)
			}
		}
		shown, secret, err := h.KeepAddress(t.Context(), h.team.ID, "job_1", h.user.ID, notify.Address{URL: r.URL + "/hook/token-of-theirs", Key: "0123456789abcdef"})
		if err != nil || strings.Contains(shown, "token") {
			t.Fatal(shown, err)
		}
		h.run()
		if err := h.Post(t.Context(), notify.Post{TeamID: h.team.ID, About: "job_1", Kind: "job.completed", SecretID: secret, Body: `{"a":1}`}); err != nil {
			t.Fatal(err)
		}
		state := func() (d notify.Delivery) {
			all, err := h.Sent(context.WithoutCancel(t.Context()), "job_1")
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			return all[0]
		}
		eventually(t, "a first attempt", func() bool { return state().Attempts == 1 })
		if d := state(); d.State != notify.Pending || d.Status != http.StatusServiceUnavailable || d.NextAt <= h.clock().UnixMilli() {
			t.Errorf("%+v", d)
		}
		h.advance(time.Minute)
		if err := h.Post(t.Context(), notify.Post{TeamID: h.team.ID, About: "job_2", Kind: "job.failed", SecretID: "sec_gone", Body: `{}`}); err != nil { // it looks again
			t.Fatal(err)
		}
		eventually(t, "it arrives", func() bool { return state().State == notify.Delivered })
		r.mu.Lock()
		head := r.heads[len(r.heads)-1]
		r.mu.Unlock()
		stamp, sum, _ := strings.Cut(strings.TrimPrefix(head.Get("Parawork-Signature"), "t="), ",v1=")
		if sum != notify.Sign("0123456789abcdef", stamp, `{"a":1}`) || head.Get("Parawork-Event") != "job.completed" {
			t.Errorf("%v", head)
		}
		if _, _, err := store.NewAccounts(db).Secret(t.Context(), secret); !fault.Is(err, fault.NotFound) {
			t.Errorf("the address is still known: %v", err)
		}
		eventually(t, "a message without an address is dropped", func() bool {
			all, err := h.Sent(t.Context(), "job_2")
			return err == nil && len(all) == 1 && all[0].State == notify.Dropped
		})
	})
}
