package triggers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// Report takes an event that another program reports to an automation. It acts soon after Report returned, at most once for an event's ID,
// which a header names (X-GitHub-Delivery and those of other hosts, or Idempotency-Key) or else the hash of the body is. made is false for an
// event that was reported before. Errors: not_found also for a wrong signature, invalid_event.
func (s *Service) Report(ctx context.Context, automationID string, h http.Header, body []byte) (_ Run, made bool, err error) {
	ctx = tenant.All(ctx, "a signature takes the place of a sign-in")
	missing := fault.New(fault.NotFound, "not_found", "There is no such automation, or the request is not signed with its secret.")
	a, err := s.Get(ctx, automationID)
	if err != nil || a.SecretID == "" {
		if err == nil || fault.Is(err, fault.NotFound) {
			err = missing
		}
		return Run{}, false, err
	}
	secret, err := s.cfg.Secrets.TeamSecret(ctx, a.SecretID, a.TeamID, secretName(a.ID))
	if err != nil {
		return Run{}, false, err
	}
	if !signed(h, secret, body) {
		return Run{}, false, missing
	}
	fields, ignored, err := a.understand(h, body)
	if err != nil {
		return Run{}, false, err
	}
	if a.Trigger.Kind == GitHost && a.Work.ProjectID != "" && s.cfg.Happened != nil {
		s.cfg.Happened(tenant.In(ctx, a.TeamID), a.Work.ProjectID)
	}
	event := cmp.Or(h.Get("X-GitHub-Delivery"), h.Get("X-Gitea-Delivery"), h.Get("X-Forgejo-Delivery"), h.Get("X-Gitlab-Event-UUID"), h.Get("Idempotency-Key"))
	if event == "" || len(event) > 200 {
		sum := sha256.Sum256(body)
		event = hex.EncodeToString(sum[:])
	}
	r := s.run(a, "event", "reported:"+event, fields)
	r.Event = fields["event.name"]
	switch {
	case a.Paused:
		s.skip(&r, "automation_paused", "The automation is paused.")
	case ignored != "":
		r.Fields = map[string]string{}
		put(r.Fields, "event.title", fields["event.title"])
		s.skip(&r, Ignored, ignored)
	default:
		if err := s.caused(ctx, a, &r); err != nil {
			return r, false, err
		}
	}
	return s.store(ctx, a, r)
}

// signed reports whether a request carries a proof of the secret: an HMAC-SHA-256 of its body, or the secret itself as GitLab sends it.
func signed(h http.Header, secret string, body []byte) bool {
	if token := h.Get("X-Gitlab-Token"); token != "" {
		return subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1
	}
	text := strings.TrimPrefix(cmp.Or(h.Get("X-Hub-Signature-256"), h.Get("X-Gitea-Signature"), h.Get("X-Forgejo-Signature"), h.Get("Parawork-Signature")), "sha256=")
	got, err := hex.DecodeString(text)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return err == nil && hmac.Equal(got, mac.Sum(nil))
}

// understand makes the fields of a template from a report, and says why the automation does not act on it; "" = it does.
func (a Automation) understand(h http.Header, body []byte) (fields map[string]string, ignored string, err error) {
	if a.Trigger.Kind == GitHost {
		happened, err := read(h, body)
		if err != nil {
			return nil, "", err
		}
		return happened.fields, a.Trigger.ignores(happened), nil
	}
	fields = map[string]string{}
	if len(bytes.TrimSpace(body)) == 0 {
		return fields, "", nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, "", fault.New(fault.Invalid, "invalid_event", "The body is no JSON: %v.", err)
	}
	left := MaxFields
	flatten(fields, "event", v, &left)
	return fields, "", nil
}

// caused finds which run made the branch that an event is about, so that automations do not start each other without end.
func (s *Service) caused(ctx context.Context, a Automation, r *Run) error {
	branch := cmp.Or(r.Fields["event.head"], r.Fields["event.branch"])
	if a.Trigger.Kind != GitHost || branch == "" || a.Work.ProjectID == "" {
		return nil
	}
	by, err := s.cfg.Store.RunOfBranch(ctx, a.Work.ProjectID, branch)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Depth = by.Depth + 1
	if by.AutomationID == a.ID && r.Event == Push || r.Depth > maxDepth {
		s.skip(r, "automation_loop", "A run of an automation made this branch, and acting on it could go on without end.")
	}
	return nil
}

// Start has an automation act now, also one that is paused. With a key, at most once for that key. fields are what an event would say.
func (s *Service) Start(ctx context.Context, id, key string, fields map[string]string) (Run, bool, error) {
	a, err := s.Get(ctx, id)
	if err != nil {
		return Run{}, false, err
	}
	said, size := map[string]string{}, 0
	for name, value := range fields {
		if size += len(name) + len(value); size > MaxFields || len(name) > 100 {
			return Run{}, false, fault.New(fault.Invalid, "invalid_event", "The fields of an event are at most %d KiB together.", MaxFields>>10).With("field", "event")
		}
		put(said, "event."+name, value)
	}
	r := s.run(a, "manual", "", said)
	r.EventID = "asked:" + cmp.Or(key, r.ID)
	return s.store(ctx, a, r)
}

func (s *Service) run(a Automation, cause, event string, fields map[string]string) Run {
	now := s.now()
	return Run{ID: id.New("arn"), AutomationID: a.ID, TeamID: a.TeamID, EventID: event, Cause: cause, Fields: fields, State: Waiting, Version: 1, DueAt: now, CreatedAt: now}
}

func (s *Service) skip(r *Run, code, why string) {
	r.State, r.Code, r.Error, r.EndedAt = Skipped, code, why, s.now()
}

func (s *Service) store(ctx context.Context, a Automation, r Run) (Run, bool, error) {
	r, made, err := s.cfg.Store.InsertRun(ctx, r, r.State == Waiting)
	if err == nil && made {
		s.notify(ctx, a)
		s.wake()
	}
	return r, made, err
}

// work is what a run asks for: the automation's work with the event in its prompt and in the name of its branch.
func (a Automation) work(fields map[string]string, now time.Time) (jobs.Request, []string) {
	all := map[string]string{"automation.name": a.Name, "now": now.UTC().Format(time.RFC3339)}
	for name, value := range fields {
		all[name] = value
	}
	w := a.Work
	var unknown, more []string
	w.Prompt, unknown = Fill(w.Prompt, all)
	w.Branch, more = Fill(w.Branch, all)
	return w, append(unknown, more...)
}

const atOnce = 200 // rows at a look

// look does what is due: schedules, runs that wait and runs that go on. What cannot be done now is tried again at the next look.
func (s *Service) look(ctx context.Context) {
	again := func(what, id string, err error) {
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, what+" could not go on, and is tried again", "id", id, "error", err)
		}
	}
	due, err := s.cfg.Store.Due(ctx, s.now(), atOnce)
	again("the schedule of automations", "", err)
	for _, a := range due {
		again("the schedule of an automation", a.ID, s.due(ctx, a))
	}
	live, err := s.cfg.Store.LiveRuns(ctx, atOnce)
	again("runs of automations", "", err)
	busy := map[string]bool{} // automations with a run that goes on
	for _, r := range live {
		busy[r.AutomationID] = busy[r.AutomationID] || r.State == Running
	}
	for _, r := range live {
		again("a run of an automation", r.ID, s.step(ctx, r, busy))
	}
}

const late = 2 * time.Minute // after which a time counts as missed

// due acts for a schedule whose time has come.
func (s *Service) due(ctx context.Context, a Automation) error {
	now := s.cfg.Now()
	missed, r := int64(0), s.run(a, "schedule", fmt.Sprint("schedule:", a.NextAt), map[string]string{})
	r.DueAt = a.NextAt
	if now.UnixMilli()-a.NextAt > late.Milliseconds() {
		r.Cause = "missed"
		if times, err := a.Trigger.Times(time.UnixMilli(a.NextAt), 100); err == nil {
			for _, t := range times {
				if t <= now.UnixMilli() {
					missed++
				}
			}
		}
		if a.Trigger.Missed == Skip {
			s.skip(&r, "automation_missed", fmt.Sprintf("The server was down at its time, and %d times after it.", missed))
		}
	}
	put(r.Fields, "event.time", time.UnixMilli(a.NextAt).UTC().Format(time.RFC3339))
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		changed := false
		if _, err := s.cfg.Store.EditAutomation(ctx, a.ID, func(b *Automation) error {
			if changed = b.NextAt == a.NextAt; changed {
				b.NextAt = b.next(now)
			}
			return nil
		}); err != nil || !changed {
			return err
		}
		_, _, err := s.cfg.Store.InsertRun(ctx, r, r.State == Waiting)
		return err
	})
	s.notify(ctx, a)
	return err
}

// step brings a run forward by one step.
func (s *Service) step(ctx context.Context, r Run, busy map[string]bool) error {
	a, err := s.cfg.Store.Automation(ctx, r.AutomationID)
	switch {
	case err != nil:
		return err
	case r.State == Running:
		return s.follow(ctx, a, r)
	case busy[a.ID]:
		return nil
	}
	busy[a.ID] = true
	return s.begin(ctx, a, r)
}

// begin asks for the jobs of a run.
func (s *Service) begin(ctx context.Context, a Automation, r Run) error {
	if a.RemovedAt != 0 {
		return s.end(ctx, a, r, Skipped, "automation_removed", "The automation was removed.", nil)
	}
	if a.Limits.MonthNano > 0 {
		spent, err := s.cfg.Store.Spent(ctx, a.ID, s.month())
		if err != nil {
			return err
		}
		if spent >= a.Limits.MonthNano {
			return s.end(ctx, a, r, Skipped, "automation_budget_spent", "Its runs have spent the budget of this month.", nil)
		}
	}
	actor, err := s.cfg.Actor(ctx, a.CreatedBy)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil || actor.RoleIn(a.TeamID) == "" {
		if err := s.pause(ctx, a, "Its owner has left the team. Make it again as somebody who is in it."); err != nil {
			return err
		}
		return s.end(ctx, a, r, Failed, "automation_owner_left", "Its owner has left the team.", nil)
	}
	work, _ := a.work(r.Fields, s.cfg.Now())
	var ids []string
	for n := range a.Attempts {
		j, _, err := s.cfg.Jobs.Create(ctx, actor, a.TeamID, fmt.Sprintf("automation/%s/%d", r.ID, n+1), work)
		if fault.Is(err, fault.RateLimited) || err != nil && fault.CodeOf(err) == "" {
			return err // there is no room now, or the cause may pass: again at the next look
		}
		if err != nil {
			return s.end(ctx, a, r, Failed, fault.CodeOf(err), fault.Words(err, "The job could not be asked for."), ids)
		}
		ids = append(ids, j.ID)
	}
	failpoint.Reach(failpoint.RunAsked)
	_, err = s.cfg.Store.EditRun(ctx, r.ID, func(r *Run) error {
		r.State, r.JobIDs, r.StartedAt = Running, ids, s.now()
		return nil
	})
	s.notify(ctx, a)
	return err
}

// follow looks at the jobs of a run: how they ended, and whether they have spent too much.
func (s *Service) follow(ctx context.Context, a Automation, r Run) error {
	var cost *int64
	var last jobs.Job
	done, good := 0, 0
	for _, jobID := range r.JobIDs {
		j, err := s.cfg.Jobs.Get(ctx, jobID)
		if fault.Is(err, fault.NotFound) { // somebody deleted it
			done, last.Code, last.Error = done+1, "job_deleted", "Its job was deleted."
			continue
		}
		if err != nil {
			return err
		}
		if nano := s.cfg.Jobs.Spent(ctx, j); nano != nil {
			cost = new(*nano + value(cost))
		}
		if j.Status.Ended() {
			done++
			if j.Status == jobs.Completed {
				good++
			} else {
				last = j
			}
		}
	}
	if done < len(r.JobIDs) {
		if a.RemovedAt != 0 || a.Limits.RunNano > 0 && value(cost) > a.Limits.RunNano {
			by := "its automation, whose budget of a run is spent"
			if a.RemovedAt != 0 {
				by = "its automation, which was removed"
			}
			for _, jobID := range r.JobIDs {
				if _, err := s.cfg.Jobs.Cancel(ctx, jobID, by); err != nil && !fault.Is(err, fault.NotFound) {
					return err
				}
			}
		}
		if cost == nil || r.CostNano != nil && *r.CostNano == *cost {
			return nil
		}
		_, err := s.cfg.Store.EditRun(ctx, r.ID, func(r *Run) error { r.CostNano = cost; return nil })
		return err
	}
	r.CostNano = cost
	if good > 0 {
		return s.end(ctx, a, r, Completed, "", "", r.JobIDs)
	}
	return s.end(ctx, a, r, Failed, last.Code, last.Error, r.JobIDs)
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// end ends a run. Too many that failed in a row pause the automation.
func (s *Service) end(ctx context.Context, a Automation, r Run, state State, code, why string, ids []string) error {
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.cfg.Store.EditRun(ctx, r.ID, func(now *Run) error {
			now.State, now.Code, now.Error, now.JobIDs, now.EndedAt, now.CostNano = state, code, why, ids, s.now(), r.CostNano
			return nil
		}); err != nil || state == Skipped {
			return err
		}
		_, err := s.cfg.Store.EditAutomation(ctx, a.ID, func(a *Automation) error {
			if a.Failures++; state == Completed {
				a.Failures = 0
			}
			if a.Failures >= maxFailures && !a.Paused {
				a.Paused, a.NextAt, a.Because = true, 0, fmt.Sprintf("Its last %d runs failed.", a.Failures)
			}
			return nil
		})
		return err
	})
	s.notify(ctx, a)
	return err
}

func (s *Service) pause(ctx context.Context, a Automation, because string) error {
	_, err := s.cfg.Store.EditAutomation(ctx, a.ID, func(a *Automation) error {
		a.Paused, a.NextAt, a.Because = true, 0, because
		return nil
	})
	return err
}
