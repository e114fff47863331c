package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
)

// Rules are the permission rules of teams, projects and sessions; permissions.Service has them.
type Rules interface {
	Rules(ctx context.Context, teamID, projectID, sessionID string) ([]permissions.Rule, error)
	Add(ctx context.Context, r permissions.Rule) (permissions.Rule, error)
}

// Place is where the agent's tools work.
type Place struct {
	Isolated bool
	Real     permissions.Real // follows links of the worktree
	Done     func()           // the place is not needed any more
}

// admit decides about a call before it is made: the state it ends in when it is not made, with the words for the model.
func (r *running) admit(ctx context.Context, c *Call) (state CallState, words string, err error) {
	spec, known := r.specs[c.Tool]
	switch {
	case !known:
		return CallFailed, fmt.Sprintf("There is no tool %q. The tools are: %s.", safetext.Cut(safetext.Line(c.Tool), 64), strings.Join(r.toolNames(), ", ")), nil
	case !isObject(c.Args):
		return CallFailed, "The arguments are not a JSON object. Nothing was done. Call the tool again with valid JSON.", nil
	case !r.thread.Mode.permits(spec, c) && spec.Name == runCommand:
		return CallDenied, fmt.Sprintf("In %s mode you change nothing: run_command runs only commands that are known to read, such as git log, git diff, ls and grep, with plain words as arguments.", r.thread.Mode), nil
	case !r.thread.Mode.permits(spec, c):
		return CallDenied, fmt.Sprintf("%s is not available in %s mode, in which you change nothing. Say what you would do instead.", c.Tool, r.thread.Mode), nil
	}
	call, isolated, done, err := r.judged(ctx, c, spec)
	if err != nil {
		return "", "", err
	}
	defer done()
	d := permissions.Decide(r.rules, call, isolated)
	switch {
	case d.Effect == permissions.Deny:
		return CallDenied, fmt.Sprintf("A permission rule of the %s forbids this call: %s. Do not try to get round it.", d.Rule.Scope(), d.Rule), nil
	case d.Effect == permissions.Ask:
		return r.askPermission(ctx, c, call, d)
	case d.Effect == permissions.Allow, spec.Permission == tools.Allow, r.host.Row().Permissions == agents.AllPermissions, r.thread.Mode != Build && spec.Name == runCommand:
		return "", "", nil
	}
	return r.askPermission(ctx, c, call, d)
}

// judged reads a call as rules see it. It looks into the sandbox only where a rule is about paths.
func (r *running) judged(ctx context.Context, c *Call, spec tools.Spec) (call permissions.Call, isolated bool, done func(), err error) {
	done = func() {}
	var real permissions.Real
	concerned := spec.Permission == tools.Ask || slices.ContainsFunc(r.rules, func(rule permissions.Rule) bool { return rule.About(spec) })
	if concerned && r.svc.cfg.Place != nil {
		p, err := r.svc.cfg.Place(ctx, r.thread.WorkspaceID)
		if err != nil {
			return call, false, done, err
		}
		isolated, real = p.Isolated, p.Real
		if p.Done != nil {
			done = p.Done
		}
	}
	return permissions.NewCall(spec, c.Args, real), isolated, done, nil
}

// askPermission asks a person about a call.
func (r *running) askPermission(ctx context.Context, c *Call, call permissions.Call, d permissions.Decision) (state CallState, words string, err error) {
	c.State = CallAsked
	if err := r.apply(ctx, Change{Calls: []*Call{c}, Thread: &ThreadChange{State: Waiting, Reason: call.Spec.Title}}); err != nil {
		return "", "", err
	}
	ask := agents.Ask{Kind: agents.Permission, Title: call.Spec.Title + ": " + safetext.Cut(safetext.Line(c.Title()), 200), Detail: detail(c), FreeText: true,
		Options: []agents.Option{{ID: "allow", Label: "Allow", Role: agents.Allow}}}
	rules := map[string]permissions.Rule{}
	if d.Effect == permissions.Ask {
		ask.Detail += fmt.Sprintf("\n\nA permission rule of the %s asks: %s", d.Rule.Scope(), d.Rule)
	} else { // nothing that is allowed beats a rule that asks
		if session, ok := r.grants(call, true); ok {
			rules["session"] = session
			ask.Options = append(ask.Options, agents.Option{ID: "session", Label: sessionLabel(session), Role: agents.AllowSession})
		}
		if always, ok := r.grants(call, false); ok {
			rules["always"] = always
			ask.Options = append(ask.Options, agents.Option{ID: "always", Label: safetext.Cut(safetext.Line("Always in this project: "+strings.TrimPrefix(always.String(), "allow ")), 200), Role: agents.Plain,
				Description: fmt.Sprintf("Adds the permission rule %q to the project. For people who may change the project's settings.", always)})
		}
	}
	ask.Options = append(ask.Options, agents.Option{ID: "deny", Label: "Deny", Role: agents.Deny})
	answer, err := r.host.Ask(ctx, "call/"+c.ID, ask, func(ctx context.Context, who accounts.Actor, a agents.Answer) error {
		if len(a.Options) == 0 {
			return nil
		}
		rule, ok := rules[a.Options[0].ID]
		if !ok {
			return nil
		}
		return r.grant(ctx, who, rule)
	})
	gone := fault.CodeOf(err) == "question_gone"
	if err != nil && !gone {
		return "", "", err
	}
	if err := r.apply(ctx, Change{Thread: &ThreadChange{State: Working}}); err != nil {
		return "", "", err
	}
	if gone {
		return CallDenied, "The question whether this call is allowed was withdrawn: nobody answered it.", nil
	}
	if len(answer.Options) == 0 || answer.Options[0].ID == "deny" {
		words = "A person did not allow this call."
		if answer.Text != "" {
			words += " Their reason: " + answer.Text
		}
		return CallDenied, words, nil
	}
	return "", "", r.loadRules(ctx) // what was just allowed counts for the next call
}

// grants is the rule that a person can add with the answer: for the session, or for the project. Of some calls there is none.
func (r *running) grants(call permissions.Call, session bool) (rule permissions.Rule, ok bool) {
	rule, ok = permissions.Suggest(call, session)
	rule.TeamID, rule.ProjectID = r.thread.TeamID, r.thread.ProjectID
	if session {
		rule.SessionID = r.thread.SessionID
	}
	return rule, ok
}

func sessionLabel(r permissions.Rule) string {
	program, all := strings.CutSuffix(r.Pattern, " *")
	switch {
	case r.Tool != runCommand:
		return "For this session"
	case all:
		return fmt.Sprintf("For this session: commands that begin with %s", program)
	}
	return "For this session: exactly this command"
}

// grant stores what a person allowed for longer than one call.
func (r *running) grant(ctx context.Context, who accounts.Actor, rule permissions.Rule) error {
	if rule.SessionID == "" {
		if err := accounts.Can(who, accounts.ManageProject, accounts.InTeam(rule.TeamID)); err != nil {
			return fault.Wrap(err, fault.Forbidden, "permission_rule_refused", "Only people who may change the project's settings can allow this for the whole project. Choose Allow, or For this session.")
		}
	}
	rule.CreatedBy = who.User.ID
	added, err := r.svc.cfg.Rules.Add(tenant.In(ctx, rule.TeamID), rule)
	if code := fault.CodeOf(err); code == "permission_rules_full" || code == "invalid_permission_rule" {
		return fault.Wrap(err, fault.Invalid, "permission_rule_refused", "The call cannot be allowed for longer: %s Choose Allow.", fault.Words(err, "the rule was refused."))
	}
	if err == nil && rule.SessionID == "" {
		audit.Note(ctx, "permission_rule", added.String())
	}
	return err
}

// loadRules reads the rules that apply now.
func (r *running) loadRules(ctx context.Context) (err error) {
	r.rules, err = r.svc.cfg.Rules.Rules(ctx, r.thread.TeamID, r.thread.ProjectID, r.thread.SessionID)
	return err
}

const runCommand = "run_command"

// planning are the tools with which plan mode may change something.
var planning = []string{"task_create", "task_update", "task_close", "task_dep"}

// reviewGroup has the tools with which review mode comments on the changes.
const reviewGroup = "review"

// allows reports whether a tool may be used in a mode, whatever its arguments are.
func (m Mode) allows(s tools.Spec) bool {
	switch {
	case m == Build || m == "" || !s.Needs.Writes:
		return true
	case s.Group == "subagents": // they are held to what the mode allows
		return s.Name != "subagent_merge"
	case m == Plan:
		return slices.Contains(planning, s.Name)
	case m == Review:
		return s.Group == "verification" || s.Group == reviewGroup
	}
	return false
}

// offers reports whether the model is offered a tool in a mode.
func (m Mode) offers(s tools.Spec) bool { return m.allows(s) || s.Name == runCommand }

// permits reports whether a call may be made in a mode.
func (m Mode) permits(s tools.Spec, c *Call) bool {
	switch {
	case m == Build || m == "":
		return true
	case s.Name == runCommand:
		return permissions.ReadsOnly(c.Args)
	case s.Name == "browser_screenshot" && argument(c, "name") != "": // saved as an artifact
		return false
	}
	return m.allows(s)
}
