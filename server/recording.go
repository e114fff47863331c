package server

import (
	"context"
	"net/http"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/control"
	"github.com/parawork/parawork/tools/remote"
)

// quiet is the audit word of operations that leave no entry though they change something: a person's own view of things.
const quiet = "-"

// auditWords are what operations are called in the audit, where the word made of their name does not say it well, or where they
// change nothing and are remembered all the same.
var auditWords = map[string]string{
	"setup":                 "instance.set_up",
	"login":                 "user.sign_in",
	"logout":                "user.sign_out",
	"loginFactor":           "user.sign_in",
	"loginPasskey":          "user.sign_in",
	"confirm":               "user.confirm",
	"confirmPasskey":        "user.confirm",
	"changePassword":        "password.change",
	"endOtherLoginSessions": "login_session.end_others",
	"createMySecret":        "secret.create",
	"acceptMyInvite":        "invite.accept",
	"declineMyInvite":       "invite.decline",
	"addMember":             "invite.create",
	"createInstanceTeam":    "team.create",
	"setInstanceTeamPlan":   "team_plan.set",
	"setInstanceTeamQuotas": "team_quotas.set",
	"redeliver":             "webhook.redeliver",
	"fallBack":              "workspace.fall_back",
	"sendInput":             "session.input",
	"workOnTask":            "task.work",
	"syncIssues":            "issues.sync",
	"retryTaskIssue":        "issues.retry",
	"writeTasksFile":        "task.export",
	"openWatch":             "watch_link.open",
	"giveConsent":           "oauth_grant.allow",
	"revokeOauthToken":      "oauth_grant.revoke",
	"linkIdentity":          "identity.begin_link", // what becomes of it, package sso remembers, as of signing in with a provider

	// Who reads all of it at once is remembered.
	"exportTeamAudit":     "audit.export",
	"exportInstanceAudit": "audit.export",

	"loginPasskeyOptions":   quiet,
	"confirmPasskeyOptions": quiet,
	"passkeyOptions":        quiet,
	"previewInvite":         quiet,

	"getProtectedResource":   quiet,
	"getAuthorizationServer": quiet,

	"startDemoSandbox":    quiet, // nobody knows who strangers are: the access log has their addresses
	"endDemoSandbox":      quiet,
	"runDemoCode":         quiet,
	"registerOauthClient": quiet, // anybody may, as often as they like: what a person allows a client is recorded

	// What the payment service reports is kept by itself, and what it changes is recorded where it does.
	"stripeWebhook":  quiet,
	"readBatch":      quiet, // it reads
	"reportEvent":    quiet, // each is kept as a run of its automation
	"callMcp":        quiet, // what it has done is recorded where it is done
	"syncBilling":    quiet,
	"beginCheckout":  "billing.checkout",
	"openPortal":     "billing.portal",
	"liftSuspension": "billing.lift_suspension",

	"reconcileBilling":  "billing.reconcile",
	"syncTeamBilling":   "billing.sync",
	"retryReport":       "billing.retry_report",
	"retryBillingEvent": "billing.retry_event",
	"retryOutgoing":     "billing.retry_outgoing",
	"acceptDiscrepancy": "billing.accept_discrepancy",

	"writeDraft":           quiet, // a person's own, until it is sent
	"deleteDraft":          quiet,
	"createComment":        quiet,
	"deleteComment":        quiet,
	"setViewed":            quiet,
	"updateComment":        "review_comment.update",
	"testPushSubscription": quiet,
	"correctState":         quiet,
	"snoozeInboxItem":      quiet,
	"finishInboxItem":      quiet,
	"reopenInboxItem":      quiet,
}

// oftenDone are operations that people and programs repeat many times about one thing: they are recorded once in a while.
var oftenDone = map[string]bool{"sendInput": true, "writeFile": true, "deleteFile": true, "syncWorkspace": true}

// auditWord is what an operation is called in the audit; "" when it leaves no entry.
func auditWord(op, method string) string {
	switch word := auditWords[op]; {
	case word == quiet:
		return ""
	case word != "":
		return word
	case method == http.MethodGet || method == http.MethodHead:
		return ""
	}
	return wordOf(op)
}

// wordOf makes the word of an operation's name: deleteWorkspace is workspace.delete.
func wordOf(op string) string {
	var parts []string
	start := 0
	for i, r := range op {
		if unicode.IsUpper(r) && i > start && !unicode.IsUpper(rune(op[i-1])) {
			parts = append(parts, strings.ToLower(op[start:i]))
			start = i
		}
	}
	parts = append(parts, strings.ToLower(op[start:]))
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts[1:], "_") + "." + parts[0]
}

// sourceOf says who makes a call.
func (s *Server) sourceOf(call *rest.Call) audit.Source {
	src := audit.Source{Kind: audit.ByNobody, IP: s.AddressOf(call.Request), RequestID: call.ID}
	if u := call.Actor.User; u.ID != "" {
		src.Kind, src.ActorID, src.ActorName, src.Credential = audit.ByUser, u.ID, u.Email, call.Actor.SessionID
		if call.Actor.TokenID != "" {
			src.Kind, src.Credential = audit.ByToken, call.Actor.TokenID
			src.Client = clientName(call.Actor.Client, call.Request.Header.Get(remote.ClientHeader))
		}
	}
	return src
}

// clientName is a client in the audit: what its user allowed it as, and what it calls itself in a request.
func clientName(allowed, claimed string) string {
	if allowed != "" && claimed != "" {
		claimed = ": " + claimed
	}
	return remote.CleanClient(allowed + claimed)
}

// record makes the entry of a call that has ended with err. It is there before the client has the whole answer.
func (s *Server) record(c echo.Context, call *rest.Call, rec *audit.Record, op, word string, err error) {
	e := audit.Entry{Chain: audit.Instance, Action: word}
	e.Result, e.Code = resultOf(err)
	switch {
	case e.Result == audit.Done && (rec.Reported() || c.Response().Header().Get("Idempotent-Replayed") != ""):
		return
	case e.Code == rest.ErrStarting.Code, e.Code == rest.ErrStopping.Code:
		return
	}
	ctx := c.Request().Context()
	src := s.sourceOf(call)
	switch as := rec.Source(); {
	case as.Kind != "":
		as.IP, as.RequestID = src.IP, src.RequestID
		src = as
	case call.Begun != "": // who signs in is nobody until then
		if actor, err := s.cfg.SignIn.Authenticate(context.WithoutCancel(ctx), call.Begun); err == nil {
			src.Kind, src.ActorID, src.ActorName, src.Credential = audit.ByUser, actor.User.ID, actor.User.Email, actor.SessionID
		}
	}
	e.TargetKind, e.TargetID, e.TargetName = targetOf(c, call)
	if call.Object.TeamID != "" {
		e.Chain = call.Object.TeamID
	}
	rec.Complete(&e)
	if rerr := s.cfg.Audit.Record(audit.By(ctx, src), e, oftenDone[op]); rerr != nil {
		s.log.ErrorContext(ctx, "an audit entry could not be written", "request_id", call.ID, "operation", op, "error", rerr)
	}
}

// recordTyping makes the entry of who may type into a terminal from now on: the call itself ends only when the terminal is closed.
func (s *Server) recordTyping(ctx context.Context, c echo.Context, call *rest.Call) {
	e := audit.Entry{Chain: call.Object.TeamID, Action: "session.attach"}
	e.TargetKind, e.TargetID, e.TargetName = targetOf(c, call)
	if err := s.cfg.Audit.Record(audit.By(ctx, s.sourceOf(call)), e, true); err != nil {
		s.log.ErrorContext(ctx, "an audit entry could not be written", "request_id", call.ID, "operation", call.Op, "error", err)
	}
}

// recordControl returns what makes the entries of a person who takes over a browser, and of what ended that. The call itself may be over by then.
func (s *Server) recordControl(c echo.Context, call *rest.Call) func(took bool, why control.Reason) {
	e := audit.Entry{Chain: call.Object.TeamID}
	e.TargetKind, e.TargetID, e.TargetName = targetOf(c, call)
	op, id := call.Op, call.ID
	ctx := audit.By(context.WithoutCancel(c.Request().Context()), s.sourceOf(call))
	return func(took bool, why control.Reason) {
		e := e
		e.Action = "browser.take_over"
		if !took {
			e.Action, e.Data = "browser.give_back", map[string]string{"reason": string(why)}
		}
		if err := s.cfg.Audit.Record(ctx, e, true); err != nil {
			s.log.ErrorContext(ctx, "an audit entry could not be written", "request_id", id, "operation", op, "error", err)
		}
	}
}

// resultOf says how a call ended, for the audit.
func resultOf(err error) (audit.Result, string) {
	if err == nil {
		return audit.Done, ""
	}
	p := rest.Translate(err)
	if p.Status >= 500 {
		return audit.Failed, p.Body.Code
	}
	return audit.Refused, p.Body.Code
}

// targetOf says what a call is about, by what its path names.
func targetOf(c echo.Context, call *rest.Call) (kind, id, name string) {
	switch {
	case call.Session.ID != "":
		return "session", call.Session.ID, call.Session.Agent
	case call.Command.ID != "":
		return "command", call.Command.ID, ""
	case call.Workspace.ID != "":
		return "workspace", call.Workspace.ID, rest.ShownName(call.Workspace)
	case call.Project.ID != "":
		return "project", call.Project.ID, call.Project.Name
	case call.Machine.ID != "":
		return "machine", call.Machine.ID, call.Machine.Name
	}
	if id := c.Param("id"); id != "" {
		return kindOfPath(c.Path()), id, ""
	}
	if call.Team.ID != "" {
		return "team", call.Team.ID, call.Team.Name
	}
	return "", "", ""
}

// kindOfPath is what the id in a route's path names: of /webhooks/:id a webhook.
func kindOfPath(path string) string {
	before, _, _ := strings.Cut(path, "/:id")
	kind := before[strings.LastIndex(before, "/")+1:]
	kind = strings.ReplaceAll(kind, "-", "_")
	if k, ok := strings.CutSuffix(kind, "ies"); ok {
		return k + "y"
	}
	return strings.TrimSuffix(kind, "s")
}
