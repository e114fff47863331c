package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools/artifacts"
)

const (
	collectFor = 2 * time.Minute  // artifacts that cannot be collected are tried again for so long
	stopFor    = 2 * time.Minute  // likewise a session that cannot be stopped
	stepTime   = 10 * time.Minute // stopping and collecting may take
)

// finish stops a job's session, collects what it made and stores its end, together with the report to its webhook.
func (s *Service) finish(ctx context.Context, j Job) (Job, error) {
	failpoint.Reach(failpoint.JobEnding)
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	one, err := s.cfg.Sessions.Get(ctx, j.SessionID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return j, err
	}
	started := err == nil
	if started && !one.State.Ended() {
		if one, err = s.stop(ctx, j, one); err != nil && s.now()-j.EndedAt < stopFor.Milliseconds() {
			return j, err
		}
	}
	output, keep := "", j.Request.Keep
	var files []Artifact
	var warnings []string
	if started {
		output = s.output(ctx, j)
		if files, warnings, err = s.collect(ctx, j, one); err != nil && s.now()-j.EndedAt < collectFor.Milliseconds() {
			return j, err
		}
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "artifacts of a job could not be collected", "job_id", j.ID, "error", err)
			_, why := words(err)
			warnings, keep = append(warnings, "Its artifacts could not be collected, and its workspace stays: "+why), true
		}
	}
	cost := s.Spent(ctx, j)
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if j, err = s.cfg.Store.EditJob(ctx, j.ID, func(j *Job) error {
			if j.Step != Ending {
				return errUnchanged
			}
			j.Step, j.Status, j.Reason, j.Output, j.Files, j.Warnings, j.CostNano, j.UpdatedAt = j.last(), j.Outcome, "", output, files, warnings, cost, s.now()
			if j.Own() && !keep {
				j.Step = Cleaning
			}
			return nil
		}); err != nil || j.HookURL == "" {
			return err
		}
		body, err := s.report(j)
		if err != nil {
			return err
		}
		return s.cfg.Hooks.Post(ctx, notify.Post{TeamID: j.TeamID, About: j.ID, Kind: "job." + string(j.Status), SecretID: j.HookSecretID, Body: body})
	})
	if err != nil {
		return j, err
	}
	s.placed(j)
	s.notify(ctx, j)
	s.admitSoon()
	return j, nil
}

// admitSoon gives the next jobs their turn.
func (s *Service) admitSoon() { s.work.Go(s.lookAtAll) }

// stop ends a session that runs. An agent that still works is interrupted first, as if a person had pressed the key; a program gets a signal.
func (s *Service) stop(ctx context.Context, j Job, one sessions.Session) (sessions.Session, error) {
	if j.Outcome != Completed && j.Request.Agent != agents.Command {
		if actor, err := s.cfg.Actor(ctx, j.CreatedBy); err == nil {
			if _, err := s.cfg.Sessions.Interrupt(ctx, actor, one.ID, false); err != nil && ctx.Err() == nil {
				s.cfg.Log.DebugContext(ctx, "the agent of a job could not be interrupted", "job_id", j.ID, "error", err)
			}
		}
	}
	return s.cfg.Sessions.End(ctx, one.ID, "stopped: its job is "+string(j.Outcome))
}

// collect saves the files that a job was to leave, and returns all artifacts of its session.
func (s *Service) collect(ctx context.Context, j Job, one sessions.Session) (files []Artifact, warnings []string, err error) {
	if err := s.cfg.Artifacts.Collect(ctx, j.TeamID, one.WorkspaceID, true); err != nil {
		return nil, nil, err
	}
	m := artifacts.Maker{TeamID: j.TeamID, WorkspaceID: one.WorkspaceID, SessionID: one.ID, UserID: j.CreatedBy}
	left := MaxArtifacts
	for _, pattern := range j.Request.Artifacts {
		paths := []string{pattern}
		if strings.ContainsAny(pattern, "*?[{") {
			if paths, err = s.cfg.Places.Find(ctx, one.WorkspaceID, j.CreatedBy, pattern, left+1); err != nil {
				return nil, nil, err
			}
		}
		if len(paths) == 0 {
			warnings = append(warnings, fmt.Sprintf("No file matches %q.", pattern))
		}
		if len(paths) > left {
			paths, warnings = paths[:left], append(warnings, fmt.Sprintf("More than %d files were to be saved: the others were left out.", MaxArtifacts))
		}
		left -= len(paths)
		for _, p := range paths {
			_, err := s.cfg.Artifacts.Save(ctx, m, artifacts.SaveRequest{Path: p, Name: p})
			switch fault.KindOf(err) {
			case fault.Invalid, fault.NotFound, fault.TooLarge, fault.Forbidden, fault.Quota, fault.Conflict:
				_, why := words(err)
				warnings = append(warnings, why)
				continue
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	for pg := (page.Page{Limit: page.MaxLimit}); len(files) < MaxArtifacts; {
		all, next, err := s.cfg.Artifacts.List(ctx, artifacts.Filter{WorkspaceID: one.WorkspaceID}, pg)
		if err != nil {
			return nil, nil, err
		}
		for _, a := range all {
			if a.SessionID == one.ID && len(files) < MaxArtifacts {
				files = append(files, Artifact{ID: a.ID, Name: a.Name, Size: a.Size, MIME: a.MIME})
			}
		}
		if pg.Cursor = next; next == "" {
			break
		}
	}
	slices.SortFunc(files, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
	return files, warnings, nil
}

// clean removes a job's own sandbox. Its artifacts stay.
func (s *Service) clean(ctx context.Context, j Job) (Job, error) {
	if j.SandboxID != "" {
		if err := s.cfg.Sandboxes.End(ctx, j.SandboxID); err != nil && !fault.Is(err, fault.NotFound) {
			return j, err
		}
	}
	return s.edit(ctx, j.ID, func(j *Job) error { j.Step = j.last(); return nil })
}

// last is the step after a job's sandbox was removed, or needed not to be.
func (j *Job) last() Step {
	if j.RemovedAt != 0 {
		return Removing
	}
	return Done
}

// remove removes a job that was deleted, with its artifacts. Its report is sent nevertheless.
func (s *Service) remove(ctx context.Context, j Job) error {
	for _, f := range j.Files {
		a, err := s.cfg.Artifacts.Get(ctx, f.ID)
		if err == nil {
			err = s.cfg.Artifacts.Delete(ctx, a)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	if err := s.cfg.Store.DeleteJob(ctx, j.ID); err != nil {
		return err
	}
	s.notify(ctx, j)
	return nil
}
