package triggers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"github.com/parawork/parawork/automations/triggers"
)

func times(t *testing.T, cron, zone string, from time.Time, n int) (out []string) {
	t.Helper()
	at, err := (triggers.Trigger{Kind: triggers.Schedule, Cron: cron, TimeZone: zone}).Times(from, n)
	if err != nil {
		t.Fatal(err)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Skipf("NOT TESTED: this machine knows no time zones: %v", err)
	}
	for _, ms := range at {
		out = append(out, time.UnixMilli(ms).In(loc).Format("01-02 15:04 MST"))
	}
	return out
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %q, not %q", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: %q, not %q", what, got, want)
			return
		}
	}
}

// Clocks in Berlin go from 02:00 to 03:00 on 29 March 2026 and from 03:00 to 02:00 on 25 October 2026.
func TestSchedulesWhenClocksChange(t *testing.T) {
	t.Parallel()
	spring, autumn := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
	equal(t, "a time that is left out comes when the clocks have been put forward", times(t, "30 2 * * *", "Europe/Berlin", spring, 3), "03-29 03:30 CEST", "03-30 02:30 CEST", "03-31 02:30 CEST")
	equal(t, "a time that comes twice is meant once", times(t, "30 2 * * *", "Europe/Berlin", autumn, 2), "10-25 02:30 CEST", "10-26 02:30 CET")
	equal(t, "every half hour is every half hour", times(t, "*/30 * * * *", "Europe/Berlin", time.Date(2026, 10, 25, 0, 45, 0, 0, time.UTC), 4), "10-25 02:00 CET", "10-25 02:30 CET", "10-25 03:00 CET", "10-25 03:30 CET")
	equal(t, "weekdays", times(t, "0 9 * * 1-5", "Europe/Berlin", autumn, 2), "10-26 09:00 CET", "10-27 09:00 CET")
}

func TestWhatIsNoSchedule(t *testing.T) {
	t.Parallel()
	for _, cron := range []string{"", "61 * * * *", "* * * *", "@every 1s", "TZ=UTC 0 0 * * *", "0 0 31 2 *", "0 0 * * * *"} {
		if _, err := (triggers.Trigger{Kind: triggers.Schedule, Cron: cron}).Times(time.Now(), 1); err == nil {
			t.Errorf("%q was taken", cron)
		}
	}
	if _, err := (triggers.Trigger{Kind: triggers.Schedule, Cron: "0 0 * * *", TimeZone: "Mars/Olympus"}).Times(time.Now(), 1); err == nil {
		t.Error("a time zone that there is not was taken")
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	text, unknown := triggers.Fill("Fix {{event.title}} of {{ event.author }}. {{event.nothing}}{{event.title}}", map[string]string{"event.title": "{{event.author}}", "event.author": "ada"})
	if text != "Fix {{event.author}} of ada. {{event.author}}" || len(unknown) != 1 || unknown[0] != "event.nothing" {
		t.Errorf("%q %q", text, unknown)
	}
}

// What git hosts send, shortened, and whether an automation acts on it.
func TestEventsOfGitHosts(t *testing.T) {
	t.Parallel()
	github := func(kind string) http.Header { return http.Header{"X-Github-Event": {kind}} }
	labelled := `{"action":"labeled","label":{"name":"agent"},"issue":{"number":7,"title":"Crash","body":"It crashes.","labels":[{"name":"Agent"}],"author_association":"NONE"},"sender":{"login":"ada"},"repository":{"full_name":"o/r"}}`
	comment := func(association string) string {
		return `{"action":"created","issue":{"number":7,"title":"Crash"},"comment":{"body":"Do it","author_association":"` + association + `"},"sender":{"login":"eve"}}`
	}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		when   triggers.Trigger
		acts   bool
		prompt string
	}{
		"GitHub: labelled":                   {github("issues"), labelled, triggers.Trigger{Events: []string{triggers.IssueLabelled}, Labels: []string{"agent"}}, true, "7 Crash agent o/r"},
		"another label":                      {github("issues"), labelled, triggers.Trigger{Events: []string{triggers.IssueLabelled}, Labels: []string{"bug"}}, false, ""},
		"another event":                      {github("issues"), labelled, triggers.Trigger{Events: []string{triggers.IssueOpened}}, false, ""},
		"a comment of a member":              {github("issue_comment"), comment("MEMBER"), triggers.Trigger{Events: []string{triggers.Comment}}, true, "7 Crash  "},
		"a comment of anybody":               {github("issue_comment"), comment("NONE"), triggers.Trigger{Events: []string{triggers.Comment}}, false, ""},
		"a comment of somebody named":        {github("issue_comment"), comment("NONE"), triggers.Trigger{Events: []string{triggers.Comment}, Authors: []string{"Eve"}}, true, "7 Crash  "},
		"a check that failed":                {github("check_run"), `{"action":"completed","check_run":{"name":"test","conclusion":"failure","head_branch":"main"}}`, triggers.Trigger{Events: []string{triggers.CheckFailed}}, true, " test  "},
		"a check that passed":                {github("check_run"), `{"action":"completed","check_run":{"name":"test","conclusion":"success"}}`, triggers.Trigger{Events: []string{triggers.CheckFailed}}, false, ""},
		"a push to a release":                {github("push"), `{"ref":"refs/heads/release/1","after":"1f","head_commit":{"message":"Fix"}}`, triggers.Trigger{Events: []string{triggers.Push}, Branches: []string{"release/*"}}, true, " Fix  "},
		"a push to another branch":           {github("push"), `{"ref":"refs/heads/main","after":"1f"}`, triggers.Trigger{Events: []string{triggers.Push}, Branches: []string{"release/*"}}, false, ""},
		"a branch that was deleted":          {github("push"), `{"ref":"refs/heads/main","after":"0000000000000000000000000000000000000000"}`, triggers.Trigger{Events: []string{triggers.Push}}, false, ""},
		"Gitea: labelled":                    {http.Header{"X-Gitea-Event": {"issues"}}, `{"action":"label_updated","issue":{"number":3,"title":"T","labels":[{"name":"agent"}]}}`, triggers.Trigger{Events: []string{triggers.IssueLabelled}, Labels: []string{"agent"}}, true, "3 T  "},
		"GitLab: labelled":                   {http.Header{"X-Gitlab-Event": {"Issue Hook"}}, `{"object_attributes":{"iid":4,"title":"T","action":"update"},"labels":[{"title":"agent"}],"changes":{"labels":{"current":[]}},"project":{"path_with_namespace":"g/p"}}`, triggers.Trigger{Events: []string{triggers.IssueLabelled}, Labels: []string{"agent"}}, true, "4 T  g/p"},
		"GitLab: a comment, of nobody knows": {http.Header{"X-Gitlab-Event": {"Note Hook"}}, `{"object_attributes":{"note":"Do it"},"user":{"username":"eve"}}`, triggers.Trigger{Events: []string{triggers.Comment}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.when.Kind = triggers.GitHost
			a := triggers.Automation{Trigger: c.when}
			a.Work.Prompt = "{{event.number}} {{event.title}} {{event.label}} {{event.repository}}"
			work, _, ignored, err := a.Preview(c.header, []byte(c.body), time.Now())
			if err != nil || (ignored == "") != c.acts || c.acts && work.Prompt != c.prompt {
				t.Errorf("%q, ignored %q, %v", work.Prompt, ignored, err)
			}
		})
	}
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
