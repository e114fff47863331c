package forge_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testforge"
	"github.com/parawork/parawork/workspaces/forge"
)

// forgetful loses the row of a pull request that has a number, like a server that died in between.
type forgetful struct{ forge.Store }

func (f forgetful) InsertPullRequest(ctx context.Context, p forge.PullRequest) error {
	if p.Number > 0 {
		return errors.New("the server died")
	}
	return f.Store.InsertPullRequest(ctx, p)
}

// A pull request that a forge opened and that was not stored is found by polling, once, also if it was merged meanwhile; one that it never
// opened is not waited for forever.
func TestOpenedPullRequestIsFoundAgain(t *testing.T) {
	for _, how := range []string{"open", "merged", "never"} {
		t.Run(how, func(t *testing.T) {
			all(t, func(t *testing.T, h *harness, _ string) {
				cfg := h.cfg
				cfg.Store = forgetful{h.kept}
				if how == "never" {
					h.there.Behave(func(w http.ResponseWriter, r *http.Request) bool {
						if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/") {
							w.WriteHeader(http.StatusBadGateway)
							return true
						}
						return false
					})
				}
				if _, err := forge.New(cfg).Open(h.ctx, h.actor, "ws_1", forge.Ask{Title: "Fix"}); err == nil {
					t.Fatal("it was opened")
				}
				h.there.Behave(nil)
				if _, ok, err := h.svc.Of(h.ctx, "ws_1"); ok || err != nil {
					t.Errorf("it has one already: %v", err)
				}
				if list, err := h.svc.PullRequests(h.ctx, "team_1"); err != nil || len(list) != 0 {
					t.Errorf("the team has %+v, %v", list, err)
				}
				if how == "merged" {
					must(t, h.there.Merge(repo, 1, "squash"))
				}
				defer h.run()()
				if how == "never" {
					h.until(func() bool {
						h.pass(time.Second)
						_, err := h.kept.PullRequestAt(h.ctx, "ws_1", h.there.Host(), repo, 0)
						return err != nil
					})
					if _, ok, _ := h.svc.Of(h.ctx, "ws_1"); ok {
						t.Error("one was found that is not there")
					}
					must(t, forgetErr(h.svc.Open(h.ctx, h.actor, "ws_1", forge.Ask{})))
					return
				}
				var pr forge.PullRequest
				h.until(func() bool {
					var ok bool
					pr, ok, _ = h.svc.Of(h.ctx, "ws_1")
					return ok && pr.SyncedAt != 0 && pr.Error == ""
				})
				if want := map[string]forge.State{"open": forge.Open, "merged": forge.Merged}[how]; pr.Number != 1 || pr.State != want || pr.Title != "Fix" || pr.OpenedBy != "usr_1" {
					t.Errorf("found %+v", pr)
				}
				if n := len(h.there.Pulls(repo)); n != 1 {
					t.Errorf("%d were opened", n)
				}
				h.until(func() bool {
					_, err := h.kept.PullRequestAt(h.ctx, "ws_1", h.there.Host(), repo, 0)
					return err != nil
				})
			})
		})
	}
}

// raced stores another process's row of the same pull request first.
type raced struct{ forge.Store }

func (r raced) InsertPullRequest(ctx context.Context, p forge.PullRequest) error {
	if p.Number > 0 {
		other := p
		other.ID = "pr_other"
		if err := r.Store.InsertPullRequest(ctx, other); err != nil {
			return err
		}
	}
	return r.Store.InsertPullRequest(ctx, p)
}

// If another process found and stored it meanwhile, that row is used.
func TestOpenedPullRequestIsStoredOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testforge.Gitea)
	cfg := h.cfg
	cfg.Store = raced{h.kept}
	pr, err := forge.New(cfg).Open(h.ctx, h.actor, "ws_1", forge.Ask{Title: "Fix"})
	must(t, err)
	if pr.ID != "pr_other" || pr.State != forge.Open || pr.SyncedAt == 0 {
		t.Errorf("opened %+v", pr)
	}
}

func forgetErr(_ forge.PullRequest, err error) error { return err }
