package bd_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tasks/bd"
)

func TestCommandLinesAreCallsOfTools(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`ready|--json|-n|5`:                        `task_ready {"limit":5}`,
		`--json|ready|--limit=0`:                   `task_ready {"limit":200}`,
		`create|Fix it|-t|bug|-p|P1|-l|a,b|--json`: `task_create {"label":["a","b"],"priority":1,"title":"Fix it","type":"bug"}`,
		`create|x|--deps|discovered-from:PW-T2`:    `task_create {"discovered_from":"PW-T2","title":"x"}`,
		`create|x|--deps|PW-T2,blocks:PW-T3`:       `task_create {"blocked_by":["PW-T2","PW-T3"],"title":"x"}`,
		`create|x|-d|why|--notes|n`:                `task_create {"description":"why\n\n## Notes\n\nn","title":"x"}`,
		`create|--title|x|--stdin`:                 `task_create {"description":"from stdin","title":"x"}`,
		`update|PW-T1|--claim|--json`:              `task_update {"claim":true,"task":"PW-T1"}`,
		`update|PW-T1|--status|in_progress|-p|0`:   `task_update {"priority":0,"status":"in_progress","task":"PW-T1"}`,
		`close|PW-T1|PW-T2|--reason|done`:          `task_close {"reason":"done","task":"PW-T1"} task_close {"reason":"done","task":"PW-T2"}`,
		`dep|add|PW-T1|PW-T2|--type|related`:       `task_dep {"action":"add","depends_on":"PW-T2","task":"PW-T1","type":"related"}`,
		`show|PW-T1|--json`:                        `task_show {"task":"PW-T1"}`,
		`list|--status|open,in_progress|-a|me`:     `task_list {"assignee":"me","status":["open","in_progress"]}`,
		`list|--all`:                               `task_list {"status":["open","in_progress","blocked","closed"]}`,
		`prime`:                                    `task_prime {}`,
		`remember|tests need -race|--key|race`:     `remember {"key":"race","text":"tests need -race"}`,
	} {
		calls, err := bd.Parse(strings.Split(line, "|"), []byte("from stdin"))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got []string
		for _, c := range calls {
			args, _ := json.Marshal(c.Args)
			got = append(got, c.Tool+" "+string(args))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s:\n got %s\nwant %s", line, s, want)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "fly", "ready|--gated", "create", "create|a|b", "show", "dep|add|a", "ready|-n", "ready|-n|x", "create|x|--deps|related:PW-T1", "remember"} {
		exit, out, errs := bd.Run(t.Context(), strings.Split(line, "|"), nil, nil)
		if exit != 2 || out != "" || !strings.HasPrefix(errs, "bd: ") {
			t.Errorf("%s: %d %q %q", line, exit, out, errs)
		}
	}
}

// What is answered in JSON has beads' names, and --claim claims the first task that is ready.
func TestAnswers(t *testing.T) {
	t.Parallel()
	var called []string
	call := func(_ context.Context, name string, args json.RawMessage) (tools.Result, error) {
		called = append(called, name+" "+string(args))
		task := `{"id":"PW-T1","title":"a","type":"bug","priority":1,"status":"open","labels":["x"],"blocked_by":[],"assignee":"","created_at":1000,"updated_at":2000,"parent":"PW-T9"}`
		switch name {
		case "task_ready":
			return tools.Result{Content: tools.Text("one"), Structured: json.RawMessage(`{"items":[` + task + `]}`)}, nil
		case "task_claim":
			return tools.Result{Content: tools.Text("yours"), Structured: json.RawMessage(task)}, nil
		}
		return tools.Result{}, fault.New(fault.NotFound, "task_not_found", "There is no task.")
	}
	exit, out, errs := bd.Run(t.Context(), []string{"ready", "--claim", "--json"}, nil, call)
	var list []map[string]any
	if err := json.Unmarshal([]byte(out), &list); err != nil || exit != 0 || errs != "" || len(list) != 1 {
		t.Fatalf("%d %s %s %v", exit, out, errs, err)
	}
	for name, want := range map[string]any{"id": "PW-T1", "issue_type": "bug", "priority": 1.0, "created_at": "1970-01-01T00:00:01Z", "parent": "PW-T9", "dependency_count": 0.0} {
		if !reflect.DeepEqual(list[0][name], want) {
			t.Errorf("%s is %v, want %v", name, list[0][name], want)
		}
	}
	if want := []string{"task_ready {}", `task_claim {"task":"PW-T1"}`}; !reflect.DeepEqual(called, want) {
		t.Errorf("called %q", called)
	}
	if exit, out, errs := bd.Run(t.Context(), []string{"ready"}, nil, call); exit != 0 || out != "one\n" || errs != "" {
		t.Errorf("%d %q %q", exit, out, errs)
	}
	if exit, _, errs := bd.Run(t.Context(), []string{"show", "PW-T2"}, nil, call); exit != 1 || errs != "bd: There is no task.\n" {
		t.Errorf("%d %q", exit, errs)
	}
}
