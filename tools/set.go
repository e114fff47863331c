package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Bounds of every tool. A list of tools is part of what an agent reads at each turn: its texts are kept short.
const (
	MaxArguments       = 1 << 20   // bytes
	DefaultResultBytes = 256 << 10 // the longest answer where the caller sets no limit
	MinResultBytes     = 4 << 10   // the least and the most a caller may set
	MaxResultBytes     = 4 << 20
	DefaultTimeout     = time.Minute

	MaxTitle       = 60   // characters
	MaxDescription = 2000 // characters
)

// Config configures a Set.
type Config struct {
	Tools    []Tool   // one line for each
	Secrets  Secrets  // masks recorded arguments; nil = teams have no secrets
	Recorder Recorder // nil = calls are not recorded
	Now      func() time.Time
	Log      *slog.Logger
}

// Set holds the tools that can be called. They do not change. Safe for concurrent use.
type Set struct {
	cfg   Config
	tools map[string]entry
	specs []Spec

	admission admission
}

// entry is a tool as it was when the Set was created.
type entry struct {
	tool      Tool
	spec      Spec
	arguments func() (*jsonschema.Resolved, error) // compiles the schema when it is first needed
}

// New returns a Set. It rejects a tool whose spec is wrong, and two tools with one name. Schemas are compiled at the first call of their
// tool, since all of them together take as long as the rest of a server's start: Compile finds those that are wrong.
func New(cfg Config) (*Set, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{cfg: cfg, tools: make(map[string]entry, len(cfg.Tools))}
	for _, t := range cfg.Tools {
		spec := t.Spec()
		if err := validate(spec); err != nil {
			return nil, fmt.Errorf("tool %q: %w", spec.Name, err)
		}
		if _, twice := s.tools[spec.Name]; twice {
			return nil, fmt.Errorf("tool %q: another tool has the same name", spec.Name)
		}
		s.tools[spec.Name] = entry{t, spec, compiledOnce(spec)}
		s.specs = append(s.specs, spec)
	}
	slices.SortStableFunc(s.specs, func(a, b Spec) int { return cmp.Compare(groupIndex(a.Group), groupIndex(b.Group)) })
	return s, nil
}

// Compile compiles the schemas of all tools, and returns what is wrong with them.
func (s *Set) Compile() error {
	var wrong []error
	for _, spec := range s.specs {
		_, err := s.tools[spec.Name].arguments()
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

var wellNamed = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// validate checks a spec, all but its schemas.
func validate(s Spec) error {
	switch {
	case !wellNamed.MatchString(s.Name) || len(s.Name) > 64:
		return errors.New("its name must be lower-case words with underscores, at most 64 characters")
	case groupIndex(s.Group) < 0:
		return fmt.Errorf("its group %q is not one of Groups", s.Group)
	case s.Title == "" || utf8.RuneCountInString(s.Title) > MaxTitle:
		return fmt.Errorf("its title must have 1 to %d characters", MaxTitle)
	case s.Description == "" || utf8.RuneCountInString(s.Description) > MaxDescription:
		return fmt.Errorf("its description must have 1 to %d characters", MaxDescription)
	case s.Permission != Allow && s.Permission != Ask:
		return fmt.Errorf("its permission %q is unknown", s.Permission)
	case s.Timeout < 0:
		return errors.New("its timeout is negative")
	}
	return nil
}

// schemas compiles a spec's schemas and returns that of its arguments.
func schemas(s Spec) (*jsonschema.Resolved, error) {
	arguments, err := compile(s.Arguments)
	if err != nil {
		return nil, fmt.Errorf("schema of the arguments: %w", err)
	}
	for _, named := range slices.Concat(s.Command.Positional, s.Command.Paths) {
		if arguments.Schema().Properties[named] == nil {
			return nil, fmt.Errorf("its command line names %q, which is not an argument", named)
		}
	}
	if in := s.Command.Stdin; in != "" && arguments.Schema().Properties[in] == nil {
		return nil, fmt.Errorf("its command line reads %q, which is not an argument", in)
	}
	if !closed(arguments) {
		return nil, errors.New("schema of the arguments: additionalProperties must be false")
	}
	if len(s.Result) > 0 {
		if _, err := compile(s.Result); err != nil {
			return nil, fmt.Errorf("schema of the result: %w", err)
		}
	}
	return arguments, nil
}

// Specs describes all tools, in the order of their groups.
func (s *Set) Specs() []Spec { return slices.Clone(s.specs) }

// Call calls a tool by its name. Empty arguments are an empty object.
func (s *Set) Call(ctx context.Context, c Caller, name string, args json.RawMessage) (Result, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	leave, err := s.admission.enter(c, cut(name, 64), s.cfg.Now())
	if err != nil { // not recorded: one caller's flood would push all other calls of the workspace out of its record
		return Result{}, err
	}
	defer leave()
	r := s.recording(ctx, c, name, args)
	result, err := s.call(ctx, c, name, args, r)
	r.end(result, err)
	return result, err
}

func (s *Set) call(ctx context.Context, c Caller, name string, args json.RawMessage, record *recording) (Result, error) {
	e, ok := s.tools[name]
	switch {
	case !ok:
		return Result{}, fault.New(fault.NotFound, "tool_not_found", "There is no tool %q. `parawork --help` in a sandbox, and GET /teams/{team}/tools, list those that exist.", cut(name, 64))
	case c.TeamID == "" || c.UserID == "":
		return Result{}, fault.New(fault.Forbidden, "tool_caller_unknown", "%s was called without a team and user.", name)
	case e.spec.Needs.Workspace && c.WorkspaceID == "":
		return Result{}, fault.New(fault.Invalid, "tool_needs_workspace", "%s works in a workspace, and the call names none.", name)
	case c.SessionID != "" && c.Groups.on(e.spec.Group) && !c.Groups.Allows(e.spec):
		return Result{}, fault.New(fault.Forbidden, "tool_group_off", "%s is not one of the tools that this session may use: it is a subagent, and was started with others only.", name)
	case c.SessionID != "" && !c.Groups.Allows(e.spec):
		return Result{}, fault.New(fault.Forbidden, "tool_group_off", "%s is switched off: the project's settings do not include the group %s. An admin of the team can switch it on there.", name, e.spec.Group)
	case len(args) > MaxArguments:
		return Result{}, fault.New(fault.TooLarge, "tool_arguments_too_large", "The arguments of %s are larger than %d bytes.", name, MaxArguments)
	}
	arguments, err := e.arguments()
	if err != nil {
		return Result{}, err
	}
	if err := check(name, arguments, args); err != nil {
		return Result{}, err
	}
	if e.spec.Needs.Writes {
		record.begin()
		failpoint.Reach(failpoint.ToolBegun)
	}
	c.Limits = bounded(c.Limits, e.spec)
	within, cancel := context.WithTimeout(tenant.In(ctx, c.TeamID), c.Limits.Timeout)
	defer cancel()
	result, err := s.guarded(within, e, c, args)
	if e.spec.Needs.Writes {
		failpoint.Reach(failpoint.ToolDone)
	}
	switch {
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return Result{}, errors.Join(context.Canceled, cause) // what was done until then stays done: it is no refusal
		}
		return Result{}, context.Canceled
	case errors.Is(within.Err(), context.DeadlineExceeded) && err != nil:
		return Result{}, fault.Wrap(err, fault.Timeout, "tool_timeout", "%s took longer than %s and was stopped. What it did until then stays done.", name, c.Limits.Timeout)
	case err != nil:
		return Result{}, err
	case !c.Limits.fits(result):
		return Result{}, fault.New(fault.Internal, "tool_result_too_large", "%s answered with more than %d bytes, which is an error in the tool. What it did stays done.", name, c.Limits.ResultBytes)
	}
	return result, nil
}

// bounded fills in the limits of a call.
func bounded(l Limits, s Spec) Limits {
	most := cmp.Or(s.Timeout, DefaultTimeout)
	if l.Timeout <= 0 || l.Timeout > most {
		l.Timeout = most
	}
	if l.ResultBytes <= 0 {
		l.ResultBytes = DefaultResultBytes
	}
	l.ResultBytes = min(max(l.ResultBytes, MinResultBytes), MaxResultBytes)
	l.ImageBytes = min(max(l.ImageBytes, 0), MaxResultBytes)
	return l
}

// guarded turns a tool's panic into an error.
func (s *Set) guarded(ctx context.Context, e entry, c Caller, args json.RawMessage) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.ErrorContext(ctx, "a tool panicked", "tool", e.spec.Name, "workspace_id", c.WorkspaceID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, err = Result{}, fault.New(fault.Internal, "tool_failed", "%s failed unexpectedly. The server's log has the details. What it did until then stays done.", e.spec.Name)
		}
	}()
	return e.tool.Call(ctx, c, args)
}
