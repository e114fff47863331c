package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// defaultPage is how many entries a list has unless the caller says otherwise.
const defaultPage = 30

type teamArgs struct {
	Team   string `json:"team"`
	Limit  int    `json:"limit"`
	Cursor string `json:"cursor"`
}

func (in teamArgs) page() url.Values { return paged(cmp.Or(in.Limit, defaultPage), in.Cursor) }

func projectList(ctx context.Context, a *API, in teamArgs) (answer, error) {
	team, err := a.team(ctx, in.Team)
	if err != nil {
		return answer{}, err
	}
	var list page[project]
	if err := a.get(ctx, path("teams", team, "projects"), in.page(), &list); err != nil {
		return answer{}, err
	}
	for i := range list.Items {
		list.Items[i].StateReason = cut(list.Items[i].StateReason, shortText)
	}
	return answer{lines(list.Items, "The team has no projects.", func(p project) string {
		return fmt.Sprintf("%s (%s): %s, default branch %s, %d active workspaces", p.Name, p.ID, p.State, p.DefaultBranch, p.Workspaces)
	}, list.NextCursor), list}, nil
}

func agentList(ctx context.Context, a *API, in teamArgs) (answer, error) {
	team, err := a.team(ctx, in.Team)
	if err != nil {
		return answer{}, err
	}
	type agent struct {
		Agent        string `json:"agent"`
		Name         string `json:"name"`
		Enabled      bool   `json:"enabled"`
		Installed    bool   `json:"installed"`
		InImages     bool   `json:"in_images"`
		Version      string `json:"version,omitempty"`
		NeedsAccount bool   `json:"needs_account"`
	}
	var list page[agent]
	if err := a.get(ctx, path("teams", team, "agents"), nil, &list); err != nil {
		return answer{}, err
	}
	return answer{lines(list.Items, "No agent is configured.", func(g agent) string {
		state := "ready"
		switch {
		case !g.Enabled:
			state = "switched off"
		case !g.Installed && !g.InImages:
			state = "not installed"
		case g.NeedsAccount:
			state = "needs an account: add one in Parawork's settings"
		}
		return fmt.Sprintf("%s (%s %s): %s", g.Agent, g.Name, g.Version, state)
	}, ""), list}, nil
}

type listArgs struct {
	teamArgs
	Project string `json:"project"`
	Show    string `json:"show"`
}

func workspaceList(ctx context.Context, a *API, in listArgs) (answer, error) {
	team, err := a.team(ctx, in.Team)
	if err != nil {
		return answer{}, err
	}
	q := in.page()
	if in.Show != "" {
		q.Set("show", in.Show)
	}
	if in.Project != "" {
		id, err := a.projectID(ctx, team, in.Project)
		if err != nil {
			return answer{}, err
		}
		q.Set("project_id", id)
	}
	var list page[workspace]
	if err := a.get(ctx, path("teams", team, "workspaces"), q, &list); err != nil {
		return answer{}, err
	}
	for i := range list.Items {
		list.Items[i] = list.Items[i].bounded()
	}
	return answer{lines(list.Items, "There are no such workspaces.", workspace.line, list.NextCursor), list}, nil
}

type createArgs struct {
	Team     string `json:"team"`
	Project  string `json:"project"`
	Name     string `json:"name"`
	Base     string `json:"base"`
	Branch   string `json:"branch"`
	Executor string `json:"executor"`
	Agent    string `json:"agent"`
	Prompt   string `json:"prompt"`
}

func workspaceCreate(ctx context.Context, a *API, in createArgs) (answer, error) {
	team, err := a.team(ctx, in.Team)
	if err != nil {
		return answer{}, err
	}
	id, err := a.projectID(ctx, team, in.Project)
	if err != nil {
		return answer{}, err
	}
	body := filled(map[string]string{"project_id": id, "name": in.Name, "base": in.Base, "branch": in.Branch, "executor": in.Executor})
	if in.Agent != "" {
		body["start"] = withArgs(filled(map[string]string{"prompt": in.Prompt}), in.Agent)
	}
	var w workspace
	if err := a.do(ctx, http.MethodPost, path("teams", team, "workspaces"), nil, body, &w); err != nil {
		return answer{}, err
	}
	w = w.bounded()
	return answer{"Created " + w.line(), w}, nil
}

// filled leaves out what is empty.
func filled(in map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		if v != "" {
			out[k] = v
		}
	}
	return out
}

type workspaceArgs struct {
	Team      string `json:"team"`
	Workspace string `json:"workspace"`
}

// mostSessions bounds the sessions a workspace is shown with, the newest.
const mostSessions = 20

func workspaceRead(ctx context.Context, a *API, in workspaceArgs) (answer, error) {
	id, err := a.workspaceID(ctx, in.Team, in.Workspace)
	if err != nil {
		return answer{}, err
	}
	var out struct {
		workspace
		Sessions []session `json:"sessions"`
	}
	if err := a.get(ctx, path("workspaces", id), nil, &out.workspace); err != nil {
		return answer{}, err
	}
	out.workspace = out.workspace.bounded()
	var list page[session]
	if err := a.get(ctx, path("workspaces", id, "sessions"), nil, &list); err != nil {
		return answer{}, err
	}
	out.Sessions = list.Items[:min(len(list.Items), mostSessions)]
	text := fmt.Sprintf("%s\nbranch %s, base %s, runs on %s", out.workspace.line(), out.Branch, out.Base, out.Executor)
	for i, s := range out.Sessions {
		out.Sessions[i] = s.bounded(shortText)
		text += "\nsession " + s.line()
	}
	return answer{text, out}, nil
}

// withArgs adds an agent that is named with its arguments, such as "parawork --mode plan".
func withArgs(body map[string]any, line string) map[string]any {
	words := strings.Fields(line)
	if len(words) == 0 {
		return body
	}
	if body["agent"] = words[0]; len(words) > 1 {
		body["argv"] = words[1:]
	}
	return body
}

type startArgs struct {
	workspaceArgs
	Agent  string `json:"agent"`
	Prompt string `json:"prompt"`
}

func sessionStart(ctx context.Context, a *API, in startArgs) (answer, error) {
	id, err := a.workspaceID(ctx, in.Team, in.Workspace)
	if err != nil {
		return answer{}, err
	}
	var s session
	if err := a.do(ctx, http.MethodPost, path("workspaces", id, "sessions"), nil, withArgs(filled(map[string]string{"prompt": in.Prompt}), in.Agent), &s); err != nil {
		return answer{}, err
	}
	s = s.bounded(shortText)
	return answer{"Started session " + s.line(), s}, nil
}

type runArgs struct {
	Team    string   `json:"team"`
	Project string   `json:"project"`
	Prompt  string   `json:"prompt"`
	Agents  []string `json:"agents"`
	Name    string   `json:"name"`
	Base    string   `json:"base"`
}

func runStart(ctx context.Context, a *API, in runArgs) (answer, error) {
	team, err := a.team(ctx, in.Team)
	if err != nil {
		return answer{}, err
	}
	id, err := a.projectID(ctx, team, in.Project)
	if err != nil {
		return answer{}, err
	}
	body := filled(map[string]string{"project_id": id, "prompt": in.Prompt, "name": in.Name, "base": in.Base})
	attempts := make([]map[string]any, len(in.Agents))
	for i, agent := range in.Agents {
		attempts[i] = withArgs(map[string]any{}, agent)
	}
	body["attempts"] = attempts
	var r run
	if err := a.do(ctx, http.MethodPost, path("teams", team, "runs"), nil, body, &r); err != nil {
		return answer{}, err
	}
	r = r.bounded()
	return answer{"Started: " + r.text(), r}, nil
}

type runReadArgs struct {
	Run string `json:"run"`
}

func runRead(ctx context.Context, a *API, in runReadArgs) (answer, error) {
	var r run
	if err := a.get(ctx, path("runs", in.Run), nil, &r); err != nil {
		return answer{}, err
	}
	r = r.bounded()
	return answer{r.text(), r}, nil
}

type usageArgs struct {
	Team  string `json:"team"`
	Days  int    `json:"days"`
	Group string `json:"group"`
}

// mostUsage bounds the lines of a usage report: those that cost most.
const mostUsage = 100

func usageRead(ctx context.Context, a *API, in usageArgs) (answer, error) {
	team, err := a.team(ctx, in.Team)
	if err != nil {
		return answer{}, err
	}
	type amounts struct {
		RunMs          int64 `json:"run_ms"`
		CostNano       int64 `json:"cost_nano"`
		TokensCostNano int64 `json:"tokens_cost_nano"`
		InputTokens    int64 `json:"input_tokens"`
		OutputTokens   int64 `json:"output_tokens"`
	}
	type item struct {
		Key  string `json:"key"`
		Name string `json:"name"`
		amounts
	}
	var out struct {
		From   int64   `json:"from"`
		To     int64   `json:"to"`
		Group  string  `json:"group"`
		Totals amounts `json:"totals"`
		Items  []item  `json:"items"`
	}
	q := url.Values{"group": {cmp.Or(in.Group, "project")}, "from": {fmt.Sprint(a.cfg.Now().AddDate(0, 0, -cmp.Or(in.Days, 30)).UnixMilli())}}
	if err := a.get(ctx, path("teams", team, "usage"), q, &out); err != nil {
		return answer{}, err
	}
	if out.Group == "day" { // the latest are what is asked for
		slices.Reverse(out.Items)
	}
	out.Items = out.Items[:min(len(out.Items), mostUsage)]
	words := func(n amounts) string {
		return fmt.Sprintf("sandboxes %.1f h %s, models %s", float64(n.RunMs)/3_600_000, dollars(n.CostNano), dollars(n.TokensCostNano))
	}
	text := []string{fmt.Sprintf("From %s to %s: %s", clock(out.From), clock(out.To), words(out.Totals))}
	for _, it := range out.Items {
		text = append(text, fmt.Sprintf("- %s: %s", cmp.Or(it.Name, it.Key), words(it.amounts)))
	}
	return answer{strings.Join(text, "\n"), out}, nil
}
