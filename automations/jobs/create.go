package jobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/sessions/agents"
)

var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]{0,127}$`)

// takeModel are the agents whose command line has --model.
var takeModel = []string{agents.Parawork, agents.ClaudeCode, agents.Codex, agents.Gemini, agents.OpenCode}

// promptMark is the argument in whose place the agent command is given the prompt.
const promptMark = "{prompt}"

const maxArgument = 100 << 10 // bytes: Linux allows 128 KiB for one

func bad(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_job", format, args...).With("field", field)
}

func (r *Request) check() error {
	r.TimeoutMs = cmp.Or(r.TimeoutMs, DefTimeout)
	switch {
	case strings.TrimSpace(r.Prompt) == "":
		return bad("prompt", "The prompt is empty. Write what the agent should do.")
	case len(r.Prompt) > MaxPrompt || !utf8.ValidString(r.Prompt) || strings.ContainsRune(r.Prompt, 0):
		return bad("prompt", "The prompt must be UTF-8 text of at most %d KiB, without NUL characters.", MaxPrompt>>10)
	case r.Agent == "" || r.Agent == agents.Shell || r.Agent == agents.Setup:
		return bad("agent", "Name the agent that is to do the work. GET /teams/{team}/agents lists them.")
	case r.Agent == agents.Command && len(r.Argv) == 0:
		return bad("argv", "The agent %s runs a program: name it in argv. The prompt is its last argument, or takes the place of %s.", agents.Command, promptMark)
	case r.Agent == agents.Command && len(r.Prompt) > maxArgument:
		return bad("prompt", "A program is given at most %d KiB of prompt as an argument. Put long material into a file.", maxArgument>>10)
	case r.Model != "" && !modelName.MatchString(r.Model):
		return bad("model", "This is not the name of a model.")
	case r.Model != "" && !slices.Contains(takeModel, r.Agent):
		return bad("model", "Parawork does not know how to choose the model of %s. Name it in argv as that agent takes it.", r.Agent)
	case r.ProjectID != "" && r.SandboxID != "":
		return bad("sandbox_id", "A job works in a project or in a sandbox. Leave out project_id or sandbox_id.")
	case r.ProjectID == "" && (r.Base != "" || r.Branch != ""):
		return bad("branch", "base and branch belong to a project. Name one in project_id.")
	case r.SandboxID != "" && r.Executor != "":
		return bad("executor", "The sandbox is where it is. Leave out executor.")
	case r.TimeoutMs < MinTimeout || r.TimeoutMs > MaxTimeout:
		return bad("timeout_ms", "timeout_ms must be from %d to %d (24 hours).", MinTimeout, MaxTimeout)
	case len(r.Artifacts) > MaxPatterns:
		return bad("artifacts", "At most %d names and patterns of artifacts can be given.", MaxPatterns)
	}
	for _, p := range r.Artifacts {
		if p == "" || len(p) > 1024 || !utf8.ValidString(p) || strings.ContainsRune(p, 0) || path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") {
			return bad("artifacts", "%.100q is neither a path in the worktree nor a pattern of such paths.", p)
		}
	}
	return nil
}

// hash identifies what is asked for.
func (r Request) hash() (string, error) {
	raw, err := json.Marshal(struct {
		Request
		Hook *Webhook
	}{r, r.Webhook})
	if err != nil {
		return "", fmt.Errorf("writing a request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Create stores a job, which begins as soon as it is its turn. With a key, which is an Idempotency-Key, the user's job that has it is returned
// instead: made is false. Errors: invalid_job, idempotency_key_reused, job_needs_isolation, jobs_queue_full, sandbox_not_found, not_found,
// and those of CheckAgent and of the webhook's URL.
func (s *Service) Create(ctx context.Context, actor accounts.Actor, teamID, key string, r Request) (_ Job, made bool, err error) {
	if err := r.check(); err != nil {
		return Job{}, false, err
	}
	hash, err := r.hash()
	if err != nil {
		return Job{}, false, err
	}
	if key != "" {
		if j, err := s.again(ctx, actor, teamID, key, hash); !fault.Is(err, fault.NotFound) {
			return j, false, err
		}
	}
	now := s.now()
	j := Job{ID: id.New("job"), TeamID: teamID, CreatedBy: actor.User.ID, Key: key, Hash: hash, Request: r, SandboxID: r.SandboxID, SessionID: id.New("ses"), Status: Queued, Step: Waiting,
		Version: 1, CreatedAt: now, UpdatedAt: now}
	if err := s.admissible(ctx, actor, &j); err != nil {
		return Job{}, false, err
	}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if w := r.Webhook; w != nil {
			if j.HookURL, j.HookSecretID, err = s.cfg.Hooks.KeepAddress(ctx, teamID, j.ID, actor.User.ID, notify.Address{URL: w.URL, Key: w.Secret}); err != nil {
				return err
			}
		}
		return s.cfg.Store.InsertJob(ctx, j, MaxQueued)
	})
	if key != "" && fault.Is(err, fault.Conflict) { // another request was faster
		j, err = s.again(ctx, actor, teamID, key, hash)
		return j, false, err
	}
	if err != nil {
		return Job{}, false, err
	}
	failpoint.Reach(failpoint.JobStored)
	s.notify(ctx, j)
	s.follow(j)
	return j, true, nil
}

// Check refuses a request that Create would refuse. Errors: those of Create.
func (s *Service) Check(ctx context.Context, actor accounts.Actor, teamID string, r Request) error {
	if err := r.check(); err != nil {
		return err
	}
	return s.admissible(ctx, actor, &Job{TeamID: teamID, CreatedBy: actor.User.ID, Request: r})
}

// again returns the job that was asked for with a key.
func (s *Service) again(ctx context.Context, actor accounts.Actor, teamID, key, hash string) (Job, error) {
	j, err := s.cfg.Store.JobByKey(ctx, teamID, actor.User.ID, key)
	if err == nil && j.Hash != hash {
		err = fault.New(fault.Conflict, "idempotency_key_reused", "This Idempotency-Key was used for another request. Use a new key for a new request.")
	}
	return j, err
}

// admissible refuses what could not be done, before it waits for its turn.
func (s *Service) admissible(ctx context.Context, actor accounts.Actor, j *Job) error {
	r := j.Request
	if err := s.cfg.Sessions.CheckAgent(ctx, r.Agent); err != nil {
		return err
	}
	var kind executors.Kind
	wishes := []executors.Kind{r.Executor}
	switch {
	case r.ProjectID != "":
		p, err := s.cfg.Workspaces.Project(ctx, r.ProjectID)
		if err != nil || p.TeamID != j.TeamID {
			return fault.New(fault.NotFound, "not_found", "The team has no such project.").With("field", "project_id")
		}
		wishes = append(wishes, executors.Kind(p.Executor))
		j.WorkspaceID = id.New("ws")
	case r.SandboxID != "":
		sb, err := s.cfg.Sandboxes.Get(ctx, r.SandboxID)
		if err != nil || sb.TeamID != j.TeamID || sb.UserID != actor.User.ID {
			return fault.New(fault.NotFound, "sandbox_not_found", "You have no such sandbox, or it has ended.").With("field", "sandbox_id")
		}
		w, err := s.cfg.Workspaces.Workspace(ctx, sb.WorkspaceID)
		if err != nil {
			return err
		}
		j.WorkspaceID, kind = w.ID, executors.Kind(w.Executor)
	}
	if kind == "" {
		var err error
		if kind, err = s.cfg.Places.Choose(ctx, j.TeamID, actor.User.ID, wishes...); err != nil {
			return err
		}
	}
	if s.cfg.Asks(r.Agent) && !r.ConfirmNoBoundary && !s.cfg.Places.Isolates(ctx, kind) {
		return errNeedsIsolation(r.Agent)
	}
	return nil
}

func errNeedsIsolation(agent string) error {
	return fault.New(fault.Conflict, "job_needs_isolation",
		"A job asks nobody, so %s would do everything without asking, and nothing isolates it in this place. Name an executor that isolates, or confirm it with confirm_no_boundary.", agent).With("field", "executor")
}

// title names the workspace of a job.
func (j Job) title() string {
	return cmp.Or(strings.TrimSpace(safetext.Cut(safetext.OneLine(safetext.Cut(j.Request.Prompt, 500)), 80)), "Job")
}
