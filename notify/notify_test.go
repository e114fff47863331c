package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/noticestore"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

// harness is the service with a real database and an inbox the test fills.
type harness struct {
	*notify.Service
	t    *testing.T
	db   *store.DB
	user accounts.User
	team accounts.Team
	bus  *events.Bus

	mu    sync.Mutex
	items []notify.Item
	now   time.Time
}

func (h *harness) Items(_ context.Context, teamID string) ([]notify.Item, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if teamID != h.team.ID {
		return nil, nil
	}
	return slices.Clone(h.items), nil
}

func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) advance(d time.Duration) {
	h.mu.Lock()
	h.now = h.now.Add(d)
	h.mu.Unlock()
}

// put fills the inbox and tells the bus.
func (h *harness) put(items ...notify.Item) {
	h.mu.Lock()
	for i := range items {
		it := &items[i]
		it.TeamID, it.TeamSlug, it.TeamName = h.team.ID, "harbour", "Harbour"
		it.WorkspaceID, it.WorkspaceKey, it.WorkspaceName = "ws_1", "PW-1", "Fix <login> & more"
		it.SessionID, it.Agent, it.AgentName = "ses_1", "claude-code", "Claude Code"
		if it.Since == 0 {
			it.Since = h.now.UnixMilli()
		}
	}
	h.items = items
	h.mu.Unlock()
	h.bus.Publish(context.Background(), events.Event{Type: "inbox.updated", TeamID: h.team.ID})
}

func newHarness(t *testing.T, db *store.DB) *harness {
	t.Helper()
	h := &harness{t: t, db: db, bus: events.New(), now: time.UnixMilli(1_800_000_000_000)}
	h.user, h.team = storetest.Seed(t, db)
	h.build()
	return h
}

func (h *harness) build() {
	key := make([]byte, vault.KeyBytes)
	h.Service = notify.New(notify.Config{Store: store.NewNotify(h.db), Notices: noticestore.New(h.db), Events: h.bus, Inbox: h, Bus: h.bus,
		Secrets:   testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: key}),
		Client:    egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: time.Minute}),
		PublicURL: "https://pw.example.com", Version: "test", Now: h.clock, Settle: time.Millisecond, Patience: time.Millisecond})
}

// run runs the service until the returned func is called, at the latest until the test ends.
func (h *harness) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	h.t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // polling
	}
}

// receiver is a webhook's other end.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	answer func(n int) int // status of the n-th request
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{answer: func(int) int { return http.StatusNoContent }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.bodies, r.heads = append(r.bodies, string(b)), append(r.heads, req.Header.Clone())
		status := r.answer(len(r.bodies))
		r.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bodies)
}

func (r *receiver) got(i int) (string, http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[i], r.heads[i]
}

func (h *harness) hook(url string, c notify.WebhookChange) (notify.Webhook, string) {
	h.t.Helper()
	c.URL = &url
	w, key, err := h.AddWebhook(h.t.Context(), h.team.ID, h.user.ID, c)
	if err != nil {
		h.t.Fatal(err)
	}
	return w, key
}

func (h *harness) deliveries(w notify.Webhook) []notify.Delivery {
	h.t.Helper()
	all, _, err := h.Deliveries(h.t.Context(), w.ID, page.Page{})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

func both(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, newHarness(t, storetest.SQLite(t))) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, newHarness(t, storetest.Postgres(t))) })
}

func TestEachItemNotifiesOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *harness) {
		r := newReceiver(t)
		w, key := h.hook(r.URL+"/hook", notify.WebhookChange{})
		stop := h.run()
		ask := notify.Item{ID: "qst_1", Kind: notify.Question, QuestionID: "qst_1", QuestionTitle: "Run npm test?", QuestionDetail: "npm test"}
		h.put(ask)
		eventually(t, "the message arrives", func() bool { return r.count() == 1 })
		body, head := r.got(0)
		var m struct {
			ID, Type, Text, URL string
			Workspace           struct{ Key, Name string }
			Question            struct{ Title, Detail string }
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		if m.ID != "qst_1" || m.Type != "attention.question" || m.Text != "Claude Code asks: Run npm test?" || m.URL != "https://pw.example.com/harbour/w/PW-1?session=ses_1" ||
			m.Workspace.Key != "PW-1" || m.Question.Detail != "npm test" {
			t.Errorf("got %s", body)
		}
		stamp, sum, _ := strings.Cut(strings.TrimPrefix(head.Get("Parawork-Signature"), "t="), ",v1=")
		if stamp != fmt.Sprint(h.clock().Unix()) || sum != notify.Sign(key, stamp, body) {
			t.Errorf("the signature %q is not that of the body", head.Get("Parawork-Signature"))
		}
		if head.Get("Parawork-Event") != "question" || head.Get("Content-Type") != "application/json" || head.Get("Parawork-Delivery") == "" {
			t.Errorf("got %v", head)
		}
		eventually(t, "the log says so", func() bool {
			d := h.deliveries(w)
			return len(d) == 1 && d[0].State == notify.Delivered && d[0].Status == 204
		})

		// A change of the same item, or a new server, sends nothing again; a new item is sent.
		h.put(ask)
		stop()
		h.build()
		h.run()
		h.put(ask, notify.Item{ID: "ses_1-5", Kind: notify.Finished})
		eventually(t, "the second message arrives", func() bool { return r.count() >= 2 })
		if body, _ := r.got(1); !strings.Contains(body, "attention.finished") || r.count() != 2 {
			t.Errorf("%d messages, the last %s", r.count(), body)
		}
		// What is old when it is seen first is not news.
		h.put(notify.Item{ID: "ses_9", Kind: notify.Failed, Since: h.clock().Add(-2 * time.Hour).UnixMilli()}, notify.Item{ID: "ses_10", Kind: notify.Failed, Reason: "exited with code 1"})
		eventually(t, "the third message arrives", func() bool { return r.count() >= 3 })
		if body, _ := r.got(2); !strings.Contains(body, "exited with code 1") {
			t.Errorf("got %s", body)
		}
		// Nor is it written down: a large team has thousands, and each look would ask for them one by one.
		var noted int
		if err := h.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM notified_items WHERE item_id = 'ses_9'`).Scan(&noted); err != nil || noted != 0 {
			t.Errorf("what is old was noted %d times (%v)", noted, err)
		}
	})
}

func TestFailedDeliveriesAreTriedAgain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *harness) {
		r := newReceiver(t)
		r.answer = func(n int) int {
			if n < 3 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		w, _ := h.hook(r.URL, notify.WebhookChange{})
		stop := h.run()
		h.put(notify.Item{ID: "ses_1", Kind: notify.Failed})
		eventually(t, "the first attempt", func() bool { d := h.deliveries(w); return len(d) == 1 && d[0].Attempts == 1 })
		if d := h.deliveries(w)[0]; d.State != notify.Pending || d.Status != 500 || d.NextAt < h.clock().Add(10*time.Second).UnixMilli() || d.Error != "it answered 500" {
			t.Errorf("got %+v", d)
		}
		if got, _ := h.Webhook(t.Context(), w.ID); got.FailedAt == 0 {
			t.Error("the webhook does not say that it fails")
		}
		for _, wait := range []time.Duration{12 * time.Second, 70 * time.Second} {
			stop()
			h.advance(wait)
			h.build() // another server goes on with the outbox
			n := r.count()
			stop = h.run()
			eventually(t, "the next attempt", func() bool { return r.count() > n })
		}
		eventually(t, "it is delivered", func() bool { return h.deliveries(w)[0].State == notify.Delivered })
		eventually(t, "the webhook is well again", func() bool { got, _ := h.Webhook(t.Context(), w.ID); return got.FailedAt == 0 })
		if r.count() != 3 {
			t.Errorf("%d requests", r.count())
		}
		d, err := h.Redeliver(t.Context(), w.ID, h.deliveries(w)[0].ID)
		if err != nil || d.State != notify.Pending {
			t.Fatalf("%+v, %v", d, err)
		}
		eventually(t, "it is sent again", func() bool { return r.count() == 4 })
	})
}

func TestBrokenWebhooksAreSwitchedOff(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	gone := newReceiver(t)
	gone.answer = func(int) int { return http.StatusGone }
	w, _ := h.hook(gone.URL, notify.WebhookChange{})
	h.run()
	h.put(notify.Item{ID: "ses_1", Kind: notify.Failed})
	eventually(t, "it is switched off", func() bool { got, _ := h.Webhook(t.Context(), w.ID); return !got.Enabled && got.Why != "" })
	yes := true
	got, _, err := h.ChangeWebhook(t.Context(), w.ID, h.user.ID, notify.WebhookChange{Enabled: &yes})
	if err != nil || !got.Enabled || got.Why != "" {
		t.Errorf("switched on again: %+v, %v", got, err)
	}
}

// An address of another origin gets a key of its own, so that no receiver can pass off as Parawork what another one is sent.
func TestAnotherOriginGetsAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	w, key := h.hook("https://hooks.example.com/one", notify.WebhookChange{})
	for _, c := range []struct {
		address string
		fresh   bool
	}{
		{"https://hooks.example.com/two", false},
		{"https://HOOKS.example.com:443/three", false},
		{"https://hooks.example.com:8443/three", true},
		{"https://hooks.example.org/three", true},
		{"http://hooks.example.org/three", true},
	} {
		_, fresh, err := h.ChangeWebhook(t.Context(), w.ID, h.user.ID, notify.WebhookChange{URL: &c.address})
		if err != nil || (fresh != "") != c.fresh || fresh == key {
			t.Errorf("changed to %s: the key %q, %v", c.address, fresh, err)
		}
	}
	// What is sent from now on is signed with the new key alone.
	r := newReceiver(t)
	_, fresh, err := h.ChangeWebhook(t.Context(), w.ID, h.user.ID, notify.WebhookChange{URL: &r.URL})
	if err != nil || fresh == "" {
		t.Fatalf("%q, %v", fresh, err)
	}
	h.run()
	h.put(notify.Item{ID: "ses_1", Kind: notify.Failed})
	eventually(t, "it is delivered", func() bool { return r.count() > 0 })
	body, head := r.got(0)
	stamp, sum, _ := strings.Cut(strings.TrimPrefix(head.Get("Parawork-Signature"), "t="), ",v1=")
	if sum != notify.Sign(fresh, stamp, body) {
		t.Error("what is sent is not signed with the new key")
	}
}

func TestFormatsSaySafely(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	slack, discord := newReceiver(t), newReceiver(t)
	sf, df := notify.Slack, notify.Discord
	h.hook(slack.URL, notify.WebhookChange{Format: &sf})
	h.hook(discord.URL, notify.WebhookChange{Format: &df, Kinds: &[]string{notify.Question}})
	h.run()
	h.put(notify.Item{ID: "q", Kind: notify.Question, QuestionTitle: "<!channel> @everyone & run?"}, notify.Item{ID: "f", Kind: notify.Finished})
	eventually(t, "all arrive", func() bool { return slack.count() == 2 && discord.count() == 1 })
	var s struct{ Text string }
	body, _ := slack.got(0)
	if other, _ := slack.got(1); strings.Contains(other, "channel") {
		body = other
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil || strings.Contains(s.Text, "<!channel>") || !strings.Contains(s.Text, "&lt;!channel&gt; @everyone &amp; run?") ||
		!strings.Contains(s.Text, "<https://pw.example.com/harbour/w/PW-1?session=ses_1|Open>") {
		t.Errorf("slack: %s, %v", body, err)
	}
	var d struct {
		Content string
		Allowed struct{ Parse []string } `json:"allowed_mentions"`
	}
	body, _ = discord.got(0)
	if err := json.Unmarshal([]byte(body), &d); err != nil || d.Allowed.Parse == nil || len(d.Allowed.Parse) != 0 {
		t.Errorf("discord: %s, %v", body, err)
	}
}

func TestWebhookAddressesStaySecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Config{URL: "sqlite", DataDir: dir, AllTeams: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := newHarness(t, db)
	const token = "T0K3N-in-the-path"
	w, key := h.hook("https://hooks.example.com/services/"+token, notify.WebhookChange{})
	if strings.Contains(w.Shown, token) || strings.Contains(w.Name, token) || !strings.HasPrefix(w.Shown, "https://hooks.example.com/") {
		t.Errorf("shown as %q, named %q", w.Shown, w.Name)
	}
	for _, f := range []string{"parawork.db", "parawork.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), token) || strings.Contains(string(raw), key) {
			t.Errorf("%s holds the address or the key in clear", f)
		}
	}
	if err := h.RemoveWebhook(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Webhook(t.Context(), w.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("after deletion: %v", err)
	}
}

func TestBadWebhooksAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	bad, none, word := "carrier-pigeon", []string{}, []string{"weather"}
	for _, tc := range []struct {
		url  string
		c    notify.WebhookChange
		code string
	}{
		{"https://10.0.0.1/x", notify.WebhookChange{}, "url_not_public"},
		{"https://169.254.169.254/latest/meta-data", notify.WebhookChange{}, "url_not_public"},
		{"ftp://example.com/", notify.WebhookChange{}, "invalid_url"},
		{"", notify.WebhookChange{}, "invalid_url"},
		{"https://example.com/", notify.WebhookChange{Format: &bad}, "invalid_format"},
		{"https://example.com/", notify.WebhookChange{Kinds: &none}, "invalid_kinds"},
		{"https://example.com/", notify.WebhookChange{Kinds: &word}, "invalid_kinds"},
	} {
		tc.c.URL = &tc.url
		if _, _, err := h.AddWebhook(t.Context(), h.team.ID, h.user.ID, tc.c); fault.CodeOf(err) != tc.code {
			t.Errorf("%s: got %v, want %s", tc.url, err, tc.code)
		}
	}
}

func TestTestSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	r := newReceiver(t)
	w, _ := h.hook(r.URL, notify.WebhookChange{})
	d, err := h.TestWebhook(t.Context(), w.ID, "harbour", "Harbour")
	if err != nil || d.State != notify.Delivered || d.Status != 204 {
		t.Errorf("%+v, %v", d, err)
	}
	if body, _ := r.got(0); !strings.Contains(body, `"type":"ping"`) {
		t.Errorf("sent %s", body)
	}
	r.Close()
	d, err = h.TestWebhook(t.Context(), w.ID, "harbour", "Harbour")
	if err != nil || d.State == notify.Delivered || d.Error != "the connection was refused" {
		t.Errorf("%+v, %v", d, err)
	}
}

// A message outside of the inbox goes once to the named users, to their browsers and the webhooks they made, and to nobody else.
func TestAnAnnouncementReachesWhoIsNamed(t *testing.T) {
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
		r := newReceiver(t)
		h.hook(r.URL, notify.WebhookChange{Kinds: &[]string{notify.Budget}})
		quiet := newReceiver(t)
		h.hook(quiet.URL, notify.WebhookChange{Kinds: &[]string{notify.Failed}})
		h.run()
		it := notify.Item{ID: "instance-budget-2026-11-90", Kind: notify.Budget, TeamID: h.team.ID, TeamSlug: "harbour", Reason: "$90.00 of $100.00 are spent."}
		pages := h.bus.Subscribe(h.team.ID, 0)
		defer pages.Close()
		for range 2 {
			if err := h.Announce(t.Context(), it, []string{"usr_other", h.user.ID}); err != nil {
				t.Fatal(err)
			}
		}
		bells := 0
		for len(pages.C) > 0 {
			if e := <-pages.C; e.Type == "notices.updated" {
				bells++
			}
		}
		if bells != 1 {
			t.Errorf("open pages got the news %d times", bells)
		}
		eventually(t, "it arrives", func() bool { return len(b.messages()) == 1 && r.count() == 1 })
		if m := b.messages()[0]; m["title"] != it.Reason || m["path"] != "/harbour" {
			t.Errorf("got %v", m)
		}
		it.ID = "instance-budget-2026-11-100"
		if err := h.Announce(t.Context(), it, []string{"usr_other"}); err != nil {
			t.Fatal(err)
		}
		it.ID = "instance-budget-2026-12-90"
		if err := h.Announce(t.Context(), it, []string{h.user.ID}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the next month's arrives", func() bool { return len(b.messages()) == 2 && r.count() == 2 })
		if quiet.count() != 0 {
			t.Error("a webhook of another kind received it")
		}
	})
}

// What happens is listed for whom it concerns, once, also when nothing disturbs them: a muted workspace is quiet until it may not be.
func TestMutedWorkspacesAreQuiet(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *harness) {
		r := newReceiver(t)
		h.hook(r.URL, notify.WebhookChange{Kinds: &[]string{notify.Question, notify.Failed}})
		mute := notify.Mute{UserID: h.user.ID, TeamID: h.team.ID, WorkspaceID: "ws_1", Mode: notify.MuteQuestion}
		if err := h.SetMute(t.Context(), mute); err != nil {
			t.Fatal(err)
		}
		h.run()
		list := func(want, unread int) []notify.Notice {
			t.Helper()
			var all []notify.Notice
			n := 0
			eventually(t, "the notices are there", func() (ok bool) {
				var err error
				if all, n, err = h.NoticesOf(t.Context(), h.user.ID, 0); err != nil {
					t.Fatal(err)
				}
				return len(all) == want
			})
			if n != unread {
				t.Errorf("%d unread, want %d", n, unread)
			}
			return all
		}
		failed := notify.Item{ID: "att_1", Kind: notify.Failed, Owners: []string{h.user.ID}}
		h.put(failed, notify.Item{ID: "att_2", Kind: notify.Failed, Owners: []string{"usr_other"}})
		list(1, 0)
		h.advance(time.Second)
		h.put(failed, notify.Item{ID: "qst_1", Kind: notify.Question, QuestionTitle: "Really?", Owners: []string{h.user.ID}})
		if all := list(2, 1); all[0].Text != "Claude Code asks: Really?" || all[0].TeamSlug == "" || all[0].WorkspaceKey != "PW-1" {
			t.Errorf("%+v", all[0])
		}
		eventually(t, "the question was sent", func() bool { return r.count() > 0 })
		if body, _ := r.got(0); !strings.Contains(body, "Really?") || r.count() != 1 {
			t.Errorf("%d messages, the first %s", r.count(), body)
		}
		if mutes, err := h.MutesOf(t.Context(), h.user.ID); err != nil || len(mutes) != 0 {
			t.Errorf("%+v %v: the question ended it", mutes, err)
		}
		if err := h.Read(t.Context(), h.user.ID, nil, true); err != nil {
			t.Fatal(err)
		}
		list(2, 0)
	})
}
