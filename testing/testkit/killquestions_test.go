package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
)

// asker is an agent that asks for a permission through its hook, as Claude Code does, and writes the answers into a file.
const asker = `"claude-code":{"command":"/bin/sh","defaultArgs":["-c","echo '{\"hook_event_name\":\"PermissionRequest\",\"prompt_id\":\"p\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"make\"}}' | \"$PARAWORK_GUEST\" hook --wait 120s claude-code >>told.txt; echo over; sleep 600"]}`

func (d *death) startAsking() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/sessions", map[string]any{"agent": "claude-code"}, &d.session)
}

func (d *death) workAndAsk() {
	d.work()
	d.startAsking()
	d.asks()
}

// asks waits for the one open question there is.
func (d *death) asks() (q question) {
	d.t.Helper()
	d.Wait("the agent asks", func() bool {
		var box struct {
			Items []struct{ Question *question }
		}
		d.API("GET", "/teams/"+d.Team+"/inbox", nil, &box)
		if len(box.Items) != 1 || box.Items[0].Question == nil {
			return false
		}
		q = *box.Items[0].Question
		return true
	})
	return q
}

func (d *death) asked() []question {
	d.t.Helper()
	var list struct{ Items []struct{ ID string } }
	d.API("GET", "/workspaces/"+d.ws.ID+"/sessions", nil, &list)
	if len(list.Items) != 1 {
		d.t.Fatalf("sessions %+v", list)
	}
	d.session.ID = list.Items[0].ID
	var all struct{ Items []question }
	d.API("GET", "/sessions/"+d.session.ID+"/questions", nil, &all)
	return all.Items
}

func (d *death) answer() {
	_ = d.Try("POST", "/sessions/"+d.session.ID+"/answer", map[string]any{"question_id": d.asks().ID, "option_id": "allow"}, nil)
}

func (d *death) reported() string {
	b, _ := os.ReadFile(filepath.Join(d.ws.Path, "told.txt"))
	return string(b)
}

// askedOnce: the question is still open, once, and can be answered.
func (d *death) askedOnce() {
	q := d.asks()
	if all := d.asked(); len(all) != 1 || all[0].ID != q.ID {
		d.t.Fatalf("asked %+v", all)
	}
	d.Wait("it can be answered", func() bool {
		return d.Try("POST", "/sessions/"+d.session.ID+"/answer", map[string]any{"question_id": q.ID, "option_id": "allow"}, nil) == nil
	})
	d.answeredOnce()
}

// answeredOnce: the agent got one answer, and nobody is asked again.
func (d *death) answeredOnce() {
	d.Wait("the agent gets the answer", func() bool { return strings.Contains(d.reported(), `"behavior":"allow"`) })
	d.Wait("nobody is asked any more", func() bool { all := d.asked(); return len(all) == 1 && all[0].State != "open" })
	if n := strings.Count(d.reported(), "behavior"); n != 1 {
		d.t.Errorf("answered %d times: %s", n, d.reported())
	}
	d.Refused(409, "", "POST", "/sessions/"+d.session.ID+"/answer", map[string]any{"question_id": d.asked()[0].ID, "option_id": "deny"})
}
