package testkit_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Nobody can add an operation that changes something without saying what it does to workspaces' files: it is in the table of flows, which is
// tried, or named here, with the reason why it needs no snapshot.
func TestEveryOperationIsAFlowOrNone(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../server/api/openapi.yaml")
	must(t, err)
	line := regexp.MustCompile(`(?m)^(?:  (/\S*):|    (get|head|post|put|patch|delete):|      operationId: (\S+))$`)
	var path, method string
	seen := make(map[string]bool)
	for _, m := range line.FindAllStringSubmatch(string(b), -1) {
		switch op := m[3]; {
		case m[1] != "":
			path = m[1]
		case m[2] != "":
			method = m[2]
		case method != "get" && method != "head":
			seen[op] = true
			tried := slices.ContainsFunc(slices.Concat(flows, flowsElsewhere), func(f flow) bool { return f.op == op })
			why := harmless[op]
			for prefix, reason := range harmlessBelow {
				if strings.HasPrefix(path, prefix) {
					why = reason
				}
			}
			if tried == (why != "") {
				t.Errorf("%s %s (%s): tried as a flow %v, and named as none that needs a snapshot: %q. It must be one of both", method, path, op, tried, why)
			}
		}
	}
	if len(seen) < 150 {
		t.Fatalf("only %d operations were found", len(seen))
	}
	for op, why := range harmless {
		if !seen[op] {
			t.Errorf("%s is no more: the list is to forget it (%s)", op, why)
		}
	}
}

// harmlessBelow are paths below which no operation is about a workspace.
var harmlessBelow = map[string]string{
	"/setup": "the first user", "/login": "signing in", "/logout": "signing out", "/password/": "one's password", "/me": "one's own account", "/email/": "one's own account",
	"/agent-accounts/": "agents' logins", "/secrets/": "secrets", "/teams/{team}/secrets": "secrets", "/teams/{team}/agent-accounts": "agents' logins",
	"/webhooks/": "notifications", "/teams/{team}/webhooks": "notifications", "/teams/{team}/members": "people", "/teams/{team}/invites": "people",
	"/invites/": "people", "/instance/users": "people: what ends with them ends as destroySandbox does", "/instance/mail/": "mail",
	"/teams/{team}/billing/": "money", "/instance/billing/": "money", "/instance/prices": "money", "/instance/model-": "models", "/teams/{team}/model-limits": "models",
	"/instance/places": "settings of places", "/teams/{team}/places": "settings of places", "/teams/{team}/place-": "settings of places", "/workspaces/{id}/place-choice": "settings of places", "/runner-tokens/": "enrolling machines", "/runner/": "enrolling machines",
	"/mcp": "its tools are operations of their own", "/oauth/": "people", "/artifacts/": artifacts, "/artifact-links/": artifacts, "/workspaces/{id}/artifacts": artifacts, "/teams/{team}/tasks": tasks, "/tasks/": tasks,
	"/projects/{id}/task-settings": "settings", "/projects/{id}/issue-sync": "issues of a forge",
	"/memory/": "facts", "/skills/": "texts for agents", "/teams/{team}/skills": "texts for agents", "/teams/{team}/agent-instructions": "texts for agents", "/teams/{team}/agent-limits": "limits", "/projects/{id}/agent-limits": "limits", "/projects/{id}/agent-instructions": "texts for agents", "/permission-rules/": "rules about calls", "/projects/{id}/permission-rules": "rules about calls", "/teams/{team}/permission-rules": "rules about calls", "/projects/{id}/memory": "facts", "/projects/{id}/tools": "switches", "/projects/{id}/languages": "a setting", "/subagents/": "words to agents, and an update that takes a snapshot first", "/sessions/{id}/subagents": "an agent begins",
	"/inbox/": "what waits for people", "/watch": "links to watch", "/reviews/": "words about changes", "/review-comments/": "words about changes",
	"/workspaces/{id}/review": "words about changes", "/prompts/": "words to agents", "/instance/plans": "plans", "/teams/{team}/quotas": limits,
	"/instance/teams/{id}/": limits, "/instance/kill-switch": limits, "/image-builds/": "images",
}

const (
	artifacts = "files of the server, not of the workspace"
	tasks     = "planned work; its files are those of the workspace made for it"
)

const limits = "a sandbox over a limit is suspended, as in the flow of setTeamBudget; its files stay where they are"

// harmless are operations near workspaces that need no snapshot, and why.
var harmless = map[string]string{
	"readBatch": "it reads", "createTeam": "there is nothing yet", "updateTeam": "a name", "createInstanceTeam": "there is nothing yet",
	"writeTasksFile": "one file, as writeFile", "createFolder": "there is nothing yet", "createProject": "there is nothing yet", "updateProject": "settings", "buildImage": "an image",
	"createWorkspace": "there is nothing yet", "cancelWorkspace": "nobody works in what is being made", "retryWorkspace": "it has no files yet", "muteWorkspace": "a wish", "unmuteWorkspace": "a wish", "startFirstSession": "an agent begins", "forgetFirstSession": "none began",
	"restoreWorkspace": "it has no files by then", "restoreTrashed": "it has no files by then", "cancelMove": "it goes back to where the move began, which kept",
	"setOwnSecrets": "an agreement: terminals of others close, what runs goes on", "setViewed": "a mark", "syncWorkspace": "a look", "settleSyncConflict": "both files stay", "createSnapshot": "it is one", "updateSnapshot": "a title, a pin",
	"deleteSnapshot": "what a person lets go of", "attachReport": "a report", "pushWorkspace": "the branch goes out", "cancelGitWork": "what it began goes back",
	"runChecks": "commands of the project, in the place of agents", "cancelCheckRun": "a command ends", "dequeueMerge": "nothing was begun",
	"openPullRequest": "the branch goes out", "refreshPullRequest": "a look", "mergePullRequest": "the base moves elsewhere", "readyPullRequest": "a mark elsewhere",
	"closePullRequest": "a mark elsewhere", "setTending": "what an agent does", "endTending": "a setting", "deliverWorkspace": "the branch goes out", "execCommand": "what an agent does", "getHover": "a look", "findDefinition": "a look", "findReferences": "a look", "listSymbols": "a look", "listCompletions": "a look", "runCode": "what an agent does", "createSandbox": "no workspace of a user", "startDemoSandbox": "no workspace of a user", "endDemoSandbox": "no workspace of a user", "runDemoCode": "what a visitor does", "updateApiSandbox": "a key", "deleteApiSandbox": "no workspace of a user", "extendApiSandbox": "time", "execInSandbox": "what an agent does", "runCodeInSandbox": "what an agent does", "writeSandboxFile": "what an agent does", "deleteSandboxFile": "what an agent does", "interruptCode": "code ends", "stopKernel": "variables, not files", "startDesktop": "what an agent does", "closeDesktop": "programs end", "controlDesktop": "who uses the mouse", "callTool": "what an agent does", "cancelCommand": "a command ends",
	"allowHost": "the network", "disallowHost": "the network", "openPort": "a port", "createPortLink": "a link", "revokePortLink": "a link", "wakeSandbox": "it goes on", "createSession": "an agent begins",
	"stopSession": "an agent ends, its files stay", "resumeSession": "an agent begins", "sendInput": "input to an agent", "correctState": "a mark",
	"answerQuestion": "input to an agent", "createPrompt": "input to an agent", "sendToThread": "input to an agent", "interruptThread": "input to an agent", "updateThread": "input to an agent", "forkThread": "an agent begins", "undoThread": "it takes a snapshot first: TestOwnAgentIsEdited", "compactThread": "input to an agent", "clearThread": "input to an agent", "interruptSession": "input to an agent", "createWatchLink": "a link",
	"createRun": "workspaces that are made", "createJob": "an agent begins, in a workspace that is made for it", "createAutomation": "nothing begins yet", "previewAutomation": "a look", "reportEvent": "a job begins, as createJob does", "updateAutomation": "nothing begins yet", "deleteAutomation": "what a person lets go of", "runAutomation": "a job begins, as createJob does", "renewAutomationSecret": "what a person lets go of", "cancelJob": "an agent ends, its files stay", "deleteJob": "what a person lets go of", "keepRun": "the others are archived, as archiveWorkspace does", "emptyTeamCaches": "caches fill again",
	"createRunner": "a machine that comes", "updateRunner": "a name", "revokeRunner": "its sandboxes end as destroySandbox does, or stay on the machine",
	"regenerateRunner": "a key", "revokeInstanceRunner": "its sandboxes end as destroySandbox does, or stay on the machine", "revokeWatchLink": "a link",
	"undoEdit":         "it is tried in tools/edits: TestUndoKeepsLaterEdits",
	"createCheckpoint": "it takes one", "deleteCheckpoint": "what a person lets go of", "restoreCheckpoint": "it is tried in tools/checkpoints: TestAgentRestoresItsOwnWork",
	"fallBack": "it is tried in workspaces: TestFallbackTakesASnapshotFirst",
}
