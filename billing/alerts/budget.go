package alerts

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/notify"
)

// Paid are the workspaces with a paid sandbox that runs.
type Paid interface {
	WorkspacesRunning(ctx context.Context) ([]string, error)
}

// Announcer tells some people of a team once, in their browsers and by the webhooks they made.
type Announcer interface {
	Announce(ctx context.Context, it notify.Item, userIDs []string) error
}

// BudgetConfig is what a Budget is made of.
type BudgetConfig struct {
	Paid      Paid
	Timelines Timelines
	People    People
	Notify    Announcer
	Mail      accounts.Mailer
	PublicURL string
}

// Budget notifies people of the state of the instance's budget.
type Budget struct{ cfg BudgetConfig }

// NewBudget makes a Budget.
func NewBudget(cfg BudgetConfig) *Budget { return &Budget{cfg} }

// Notify reports the state of the instance's budget in the timelines of workspaces that cost something, and to every operator.
func (t *Budget) Notify(ctx context.Context, a billing.Alert) error {
	running, err := t.cfg.Paid.WorkspacesRunning(ctx)
	if err != nil {
		return fmt.Errorf("reading which workspaces cost something: %w", err)
	}
	for _, id := range running {
		if err := t.cfg.Timelines.Notify(ctx, id, "budget", a.Words()); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("telling a workspace of the budget: %w", err)
		}
	}
	byTeam := map[string][]string{} // each operator in one of their teams: a browser is notified once
	teams := map[string]accounts.Team{}
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		users, next, err := t.cfg.People.Users(ctx, "", pg)
		if err != nil {
			return fmt.Errorf("reading who the operators are: %w", err)
		}
		for _, u := range users {
			if !u.User.Operator || u.User.SuspendedAt != 0 {
				continue
			}
			if err := t.mail(ctx, a, u.User); err != nil {
				return err
			}
			if len(u.Memberships) > 0 {
				t := u.Memberships[0].Team
				teams[t.ID], byTeam[t.ID] = t, append(byTeam[t.ID], u.User.ID)
			}
		}
		if pg.Cursor = next; next == "" {
			break
		}
	}
	for id, operators := range byTeam {
		it := notify.Item{ID: fmt.Sprintf("instance-budget-%s-%d-%d", a.Period, a.Percent, a.At), Kind: notify.Budget, TeamID: id, TeamSlug: teams[id].Slug, TeamName: teams[id].Name,
			Reason: a.Words(), Since: a.At}
		if err := t.cfg.Notify.Announce(ctx, it, operators); err != nil {
			return err
		}
	}
	return nil
}

// mail queues a mail to an operator about the instance's budget.
func (t *Budget) mail(ctx context.Context, a billing.Alert, to accounts.User) error {
	if !t.cfg.Mail.Enabled() || to.Email == "" {
		return nil
	}
	text := a.Words() + "\n"
	if u := t.cfg.PublicURL; u != "" {
		text += "\n" + u + "/settings/places\n"
	}
	if err := t.cfg.Mail.Queue(ctx, accounts.Mail{Kind: "budget", To: to.Email, Subject: fmt.Sprintf("%d %% of this server's budget for paid places are spent", a.Percent), Text: text}); err != nil {
		return fmt.Errorf("queueing a mail about the budget: %w", err)
	}
	return nil
}
