package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
)

// TooOld is the greatest age of an item that people are still notified of: after a long outage of the server nobody wants news
// of last week.
const TooOld = time.Hour

// pruneEvery and keepFor bound what the outbox remembers.
const (
	pruneEvery = time.Hour
	keepFor    = 30 * 24 * time.Hour
)

// listen marks teams whose inbox may have changed.
func (s *Service) listen(ctx context.Context) {
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	s.markAll(ctx) // what happened while no server ran
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-sub.C:
			if sub.Missed() || e.Type == events.Resync {
				s.markAll(ctx)
				continue
			}
			if e.TeamID != "" && (e.Type == "session.updated" || e.Type == "inbox.updated" || e.Type == "workspace.updated" || e.Type == "grace.updated" ||
				e.Type == "budget.updated" || e.Type == "quota.updated" || e.Type == "checks.updated" || e.Type == "reviews.updated") {
				s.mark(e.TeamID)
			}
		}
	}
}

// Look has the inbox of a team looked at soon.
func (s *Service) Look(teamID string) { s.mark(teamID) }

func (s *Service) mark(teamID string) {
	s.mu.Lock()
	s.dirty[teamID] = struct{}{}
	s.mu.Unlock()
	poke(s.wake)
}

func (s *Service) markAll(ctx context.Context) {
	ids, err := s.cfg.Store.TeamIDs(ctx)
	if err != nil {
		s.cfg.Log.Warn("teams not read", "error", err)
		return
	}
	for _, id := range ids {
		s.mark(id)
	}
}

// look reads the inboxes of marked teams, a moment after the first news so that a burst is one look, and drops what is old now
// and then.
func (s *Service) look(ctx context.Context) {
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-prune.C:
			if err := s.cfg.Store.Prune(ctx, s.cfg.Now().Add(-keepFor).UnixMilli()); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("old deliveries not deleted", "error", err)
			}
			if err := s.cfg.Notices.PruneNotices(ctx, s.cfg.Now().Add(-noticesFor).UnixMilli(), MaxNotices); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("old notices not deleted", "error", err)
			}
			continue
		case <-s.wake:
		}
		if !tasks.Sleep(ctx, s.cfg.Settle) {
			return
		}
		s.mu.Lock()
		teams := make([]string, 0, len(s.dirty))
		for id := range s.dirty {
			teams = append(teams, id)
		}
		clear(s.dirty)
		s.mu.Unlock()
		for _, id := range teams {
			if err := s.lookAt(ctx, id); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("inbox not read", "team_id", id, "error", err)
				s.mark(id) // again with the next round
				if !tasks.Sleep(ctx, time.Second) {
					return
				}
			}
		}
	}
}

// lookAt records the new items of a team's inbox and adds a delivery for each recipient to the outbox. Both happen in one
// transaction, so that each item is sent once, even if the server dies in between.
func (s *Service) lookAt(ctx context.Context, teamID string) error {
	items, err := s.cfg.Inbox.Items(ctx, teamID)
	if err != nil || len(items) == 0 {
		return err
	}
	var hooks []Webhook
	var targets []Target
	var readers []Reader
	read, told := false, false
	defer func() {
		if told {
			s.told(ctx, teamID, nil)
		}
	}()
	for _, it := range items {
		// Old items are never sent, so they need not be recorded: in a large team almost all items are old.
		if it.Since < s.now()-TooOld.Milliseconds() {
			continue
		}
		reported := 0
		err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
			reported = 0
			now := s.now()
			fresh, err := s.cfg.Store.NoteItem(ctx, teamID, it.ID, now)
			if err != nil || !fresh {
				return err
			}
			if !read {
				if hooks, err = s.cfg.Store.Webhooks(ctx, teamID); err != nil {
					return err
				}
				if targets, err = s.cfg.Store.Targets(ctx, teamID); err != nil {
					return err
				}
				if readers, err = s.cfg.Notices.Readers(ctx, teamID); err != nil {
					return err
				}
				read = true
			}
			muted, err := s.notice(ctx, it, readers, now)
			if err != nil {
				return err
			}
			told = true
			reported, err = s.enqueue(ctx, it, unmuted(hooks, muted, Webhook.maker), unmuted(targets, muted, Target.user), now)
			return err
		})
		if err != nil {
			return fmt.Errorf("noting item %s: %w", it.ID, err)
		}
		if reported > 0 {
			poke(s.post)
		}
	}
	return nil
}

// unmuted leaves out what goes to people who muted the workspace: their browsers, and the webhooks they made.
func unmuted[T any](all []T, muted map[string]bool, whose func(T) string) []T {
	if len(muted) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(t T) bool { return muted[whose(t)] })
}

func (w Webhook) maker() string { return w.CreatedBy }
func (t Target) user() string   { return t.UserID }

// enqueue puts one item's deliveries into the outbox.
func (s *Service) enqueue(ctx context.Context, it Item, hooks []Webhook, targets []Target, now int64) (reported int, err error) {
	if it.OnlyFor != "" { // everybody who reads the channel of a team's webhook would see it
		hooks = nil
		targets = slices.DeleteFunc(slices.Clone(targets), func(t Target) bool { return t.UserID != it.OnlyFor })
	}
	if it.NoHooks {
		hooks = nil
	}
	if it.NoPush {
		targets = nil
	}
	for _, w := range hooks {
		if !w.Enabled || !slices.Contains(w.Kinds, it.Kind) {
			continue
		}
		body, err := s.hookBody(w, it, now)
		if err != nil {
			return reported, err
		}
		d := Delivery{ID: id.New("dlv"), TeamID: it.TeamID, WebhookID: w.ID, ItemID: it.ID, Kind: it.Kind, Body: body, State: Pending, NextAt: now, CreatedAt: now}
		if err := s.cfg.Store.InsertDelivery(ctx, d); err != nil {
			return reported, err
		}
		reported++
	}
	for _, t := range targets {
		if !t.Rules.wants(it.Kind, slices.Contains(it.Owners, t.UserID)) {
			continue
		}
		at := now
		if it.Kind == Question {
			at += s.cfg.Patience.Milliseconds() // whoever sits at the terminal answers at once
		}
		d := Delivery{ID: id.New("dlv"), TeamID: it.TeamID, SubscriptionID: t.SubscriptionID, ItemID: it.ID, Kind: it.Kind, Body: s.pushBody(it), State: Pending, NextAt: at, CreatedAt: now}
		if err := s.cfg.Store.InsertDelivery(ctx, d); err != nil {
			return reported, err
		}
		reported++
	}
	return reported, nil
}

// announced begins the ids of what was announced: no inbox says that it was settled meanwhile.
const announced = "said_"

// Announce tells some people of a team once of what no inbox has: in their browsers, where their rules let it, and by the webhooks they made for
// its kind. Within a transaction it is part of it.
func (s *Service) Announce(ctx context.Context, it Item, userIDs []string) error {
	it.ID = announced + it.ID
	reported, fresh := 0, false
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		now := s.now()
		fresh, err = s.cfg.Store.NoteItem(ctx, it.TeamID, it.ID, now)
		if err != nil || !fresh {
			return err
		}
		hooks, err := s.cfg.Store.Webhooks(ctx, it.TeamID)
		if err != nil {
			return err
		}
		targets, err := s.cfg.Store.Targets(ctx, it.TeamID)
		if err != nil {
			return err
		}
		hooks = slices.DeleteFunc(slices.Clone(hooks), func(w Webhook) bool { return !slices.Contains(userIDs, w.CreatedBy) })
		targets = slices.DeleteFunc(slices.Clone(targets), func(t Target) bool { return !slices.Contains(userIDs, t.UserID) })
		readers, err := s.cfg.Notices.Readers(ctx, it.TeamID)
		if err != nil {
			return err
		}
		it.Owners = userIDs
		if _, err := s.notice(ctx, it, slices.DeleteFunc(readers, func(r Reader) bool { return !slices.Contains(userIDs, r.UserID) }), now); err != nil {
			return err
		}
		reported, err = s.enqueue(ctx, it, hooks, targets, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("announcing %s: %w", it.ID, err)
	}
	if fresh {
		s.told(ctx, it.TeamID, nil)
	}
	if reported > 0 {
		poke(s.post)
	}
	return nil
}

// Sentence says in one line what an item is about.
func (it Item) Sentence() string {
	who := cmp.Or(it.AgentName, "The workspace")
	switch it.Kind {
	case Question:
		if it.QuestionTitle != "" {
			return who + " asks: " + it.QuestionTitle
		}
		return who + " waits for you"
	case Failed:
		if it.Reason != "" {
			return who + " failed: " + it.Reason
		}
		return who + " failed"
	case Stuck:
		if it.Reason != "" {
			return who + " is stuck: " + it.Reason
		}
		return who + " is stuck"
	case Finished:
		return who + " has finished"
	case Budget, Review, Checks, Comment, Machine:
		return it.Reason
	}
	return "Parawork says hello"
}

// link is the address of the item's workspace, "" when the server does not know its own.
func (s *Service) link(it Item) string {
	if s.cfg.PublicURL == "" || it.TeamSlug == "" {
		return ""
	}
	if it.WorkspaceKey == "" {
		return s.cfg.PublicURL + "/" + it.TeamSlug
	}
	return s.cfg.PublicURL + s.path(it)
}

// path is the part of the address behind the server's.
func (s *Service) path(it Item) string {
	if it.WorkspaceKey == "" {
		return "/" + it.TeamSlug
	}
	p := "/" + it.TeamSlug + "/w/" + it.WorkspaceKey
	if it.SessionID != "" {
		p += "?session=" + it.SessionID
	}
	return p
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func marshal(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
