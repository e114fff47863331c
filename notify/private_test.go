package notify_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/notify"
)

// News of a private workspace goes to its owner's browsers, and to no webhook of the team.
func TestPrivateItemsNotifyTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *harness) {
		key, err := h.PushKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := newBrowser(t, key)
		if _, err := h.Subscribe(t.Context(), b.subscription(h.user.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.SetRules(t.Context(), h.user.ID, notify.Rules{notify.Finished: notify.All}); err != nil {
			t.Fatal(err)
		}
		r := newReceiver(t)
		h.hook(r.URL+"/hook", notify.WebhookChange{})
		h.run()
		h.put(notify.Item{ID: "ses_1", Kind: notify.Finished, OnlyFor: "usr_other"}, notify.Item{ID: "ses_2", Kind: notify.Finished, OnlyFor: h.user.ID},
			notify.Item{ID: "ses_3", Kind: notify.Finished})
		eventually(t, "what is for everybody arrives", func() bool { return r.count() >= 1 && len(b.messages()) >= 2 })
		if body, _ := r.got(0); r.count() != 1 || !strings.Contains(body, `"ses_3"`) {
			t.Errorf("the webhook received %d messages, the first %s", r.count(), body)
		}
		seen := map[any]bool{}
		for _, m := range b.messages() {
			seen[m["item"]] = true
		}
		if len(seen) != 2 || seen["ses_1"] {
			t.Errorf("the browser was notified of %v", seen)
		}
	})
}
