package server

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/tasks"
)

// access says who may use an operation at all.
type access int

const (
	anyone    access = iota + 1 // also who is not signed in
	signedIn                    // whoever is signed in: it is about themselves
	operators                   // operators of the instance
	scrapers                    // operators, and programs of this machine itself: see scrapesLocally
	member                      // members of the team the path leads to, whose role has the action
)

// rule is what one operation asks of its caller.
type rule struct {
	access access
	action accounts.Action // members only
	find   finder          // members only
	body   int64           // bytes its body may have; 0 = maxJSON
	scope  accounts.Scope  // members only: what it asks of an API token beyond what its action does, "" = nothing
	any    bool            // signedIn only: an API token of whatever scopes may do it
	repeat bool            // takes an Idempotency-Key
	works  bool            // it has something done in the workspace's place: not on a machine that is somebody else's own
	socket bool            // a WebSocket for pages

	// ownProof says that a login counts for nothing here: who asks is proven in another way, which the operation looks at itself, such as
	// a machine's key or the cookie of a link.
	ownProof  bool
	anyOrigin bool      // of pages: nothing that a browser sends of itself counts
	confirm   bool      // a login session must have proven lately who it is
	cost      rest.Cost // what limit it counts against, "" = none
	demo      bool      // of the public demo: there is no such route while that is off
}

// Limits of bodies.
const (
	maxJSON = 4 << 20 // prompts included

	// Of who is not signed in: each is read into memory, and anybody may send many at once.
	maxStranger = 16 << 10
	maxPasskey  = 64 << 10
)

func of(action accounts.Action, find finder) rule {
	return rule{access: member, action: action, find: find}
}

// working marks what has something done in the workspace's place.
func (r rule) working() rule { r.works = true; return r }

// needing says what an API token needs where the action is a reader's and the operation is not.
func (r rule) needing(sc accounts.Scope) rule { r.scope = sc; return r }

// unscoped marks operations that reveal to the caller only who they are.
func (r rule) unscoped() rule   { r.any = true; return r }
func (r rule) overSocket() rule { r.socket = true; return r }

// confirmed marks a change for which a browser that was left open is not enough. Scripts need a scope that allows it, and nothing more:
// who made their token has confirmed who they are.
func (r rule) confirmed() rule { r.confirm = true; return r }

// costs says what limit an operation counts against: see rest.Throttle.
func (r rule) costs(c rest.Cost) rule { r.cost = c; return r }

func (r rule) repeatable() rule { r.repeat = true; return r }

// policy is the whole of who may call what: one entry for each operation of openapi.yaml, sockets included. An operation without
// an entry is refused, and a test fails on it.
var policy = map[string]rule{
	"getHealth": {access: anyone},
	"getSetup":  {access: anyone},
	"setup":     {access: anyone, body: maxStranger},
	"login":     {access: anyone, body: maxStranger},
	"getSpec":   {access: anyone},

	// The invite itself is the right to join.
	"previewInvite": {access: anyone, body: maxStranger},
	"acceptInvite":  {access: anyone, body: maxStranger},

	// What a sign-in goes on with is in a cookie.
	"getSignIn":           {access: anyone},
	"getLoginWaiting":     {access: anyone},
	"loginFactor":         {access: anyone, body: maxStranger},
	"loginPasskeyOptions": {access: anyone, body: maxStranger},
	"loginPasskey":        {access: anyone, body: maxPasskey},
	"forgotPassword":      {access: anyone, body: maxStranger},
	"resetPassword":       {access: anyone, body: maxStranger},
	"confirmEmail":        {access: anyone, body: maxStranger},
	"beginProviderLogin":  {access: anyone},
	"finishProviderLogin": {access: anyone},

	"getDocs": {access: anyone},

	// Who visits the demo shows a cookie that is good for their sandbox alone: see package demo.
	"getDemo":          {access: anyone, demo: true},
	"startDemoSandbox": {access: anyone, ownProof: true, demo: true, body: 4 << 10},
	"endDemoSandbox":   {access: anyone, ownProof: true, demo: true, body: 4 << 10},
	"runDemoCode":      {access: anyone, ownProof: true, demo: true, body: 256 << 10},

	// OAuth: see package consent. Programs ask for themselves; the person on the page is known by their login, which its handler looks at.
	"getProtectedResource":   {access: anyone, ownProof: true, anyOrigin: true},
	"getAuthorizationServer": {access: anyone, ownProof: true, anyOrigin: true},
	"registerOauthClient":    {access: anyone, ownProof: true, anyOrigin: true, body: maxStranger},
	"issueOauthToken":        {access: anyone, ownProof: true, anyOrigin: true, body: maxStranger},
	"revokeOauthToken":       {access: anyone, ownProof: true, anyOrigin: true, body: maxStranger},
	"getConsent":             {access: anyone},
	"giveConsent":            {access: anyone, body: maxStranger},

	// Machines say who they are with a token or a key of their own.
	"enrolRunner":         {access: anyone, body: 1 << 20},
	"connectRunner":       {access: anyone, ownProof: true}, // see machines.Service.Connect
	"connectGuest":        {access: anyone, ownProof: true}, // see kubernetes.Executor.Called
	"listRunnerDownloads": {access: anyone},
	"getRunnerDownload":   {access: anyone},

	// Who has a link needs no login; a cookie that is good for this alone says which link: see watch.go.
	"openWatch":          {access: anyone, ownProof: true, body: 4 << 10},
	"watchTerminal":      {access: anyone, ownProof: true, socket: true},
	"listWatchLinks":     of(accounts.ShareSession, bySession),
	"createWatchLink":    of(accounts.ShareSession, bySession),
	"revokeWatchLink":    of(accounts.ShareSession, byWatchLink), // one's own; the service asks for ManageTeam for another's
	"listTeamWatchLinks": of(accounts.ManageTeam, byTeam),

	"logout":                 rule{access: signedIn}.unscoped(),
	"getMe":                  rule{access: signedIn}.unscoped(),
	"updateMe":               {access: signedIn},
	"setMyAvatar":            {access: signedIn, body: avatars.MaxBytes},
	"deleteMyAvatar":         {access: signedIn},
	"changeMyEmail":          {access: signedIn}, // the service asks for a confirmation
	"getMySignIn":            {access: signedIn},
	"confirm":                {access: signedIn},
	"confirmPasskeyOptions":  {access: signedIn},
	"confirmPasskey":         {access: signedIn},
	"beginTotp":              {access: signedIn},
	"confirmTotp":            {access: signedIn},
	"removeTotp":             {access: signedIn},
	"renewRecoveryCodes":     {access: signedIn},
	"passkeyOptions":         {access: signedIn},
	"addPasskey":             {access: signedIn},
	"renamePasskey":          {access: signedIn},
	"removePasskey":          {access: signedIn},
	"listLoginSessions":      {access: signedIn},
	"endLoginSession":        {access: signedIn},
	"endOtherLoginSessions":  {access: signedIn},
	"changePassword":         {access: signedIn},
	"listMyInvites":          {access: signedIn},
	"acceptMyInvite":         {access: signedIn},
	"declineMyInvite":        {access: signedIn},
	"listTokens":             {access: signedIn},
	"createToken":            {access: signedIn},
	"deleteToken":            {access: signedIn},
	"linkIdentity":           {access: signedIn},
	"unlinkIdentity":         {access: signedIn},
	"listAgentAccounts":      {access: signedIn},
	"setAgentAccount":        {access: signedIn},
	"deleteAgentAccount":     {access: signedIn},
	"addAgentAccount":        {access: signedIn},
	"updateAgentAccount":     {access: signedIn},                          // one's own, or a team's: the service asks for ManageTeam there
	"removeAgentAccount":     {access: signedIn},                          // likewise
	"testAgentAccount":       rule{access: signedIn}.costs(rest.Reaching), // likewise
	"getNotifications":       {access: signedIn},
	"setNotifications":       {access: signedIn},
	"listNotices":            {access: signedIn},
	"readNotices":            {access: signedIn},
	"addPushSubscription":    {access: signedIn},
	"deletePushSubscription": {access: signedIn},
	"testPushSubscription":   rule{access: signedIn}.costs(rest.Reaching),
	"listTeams":              rule{access: signedIn}.unscoped(),
	"getInstanceMetrics":     {access: operators},
	"getMetrics":             {access: scrapers},
	"createTeam":             {access: operators}, // a second team takes places without isolation from all

	"getInstanceUsage":  {access: operators},
	"listPrices":        {access: operators},
	"addPrice":          {access: operators},
	"getTeamUsage":      of(accounts.ViewCosts, byTeam),
	"getWorkspaceCosts": of(accounts.ViewCosts, byWorkspace),

	"getInstancePlaces": {access: operators},
	"setInstancePlaces": {access: operators},
	"getPlaceSettings":  {access: operators},
	"setPlaceSettings":  {access: operators},
	"removePlaceRegion": {access: operators},
	"testPlace":         rule{access: operators}.costs(rest.Reaching),

	"listUsers":          {access: operators},
	"createUser":         rule{access: operators}.costs(rest.Mailing),
	"getUser":            {access: operators},
	"updateUser":         {access: operators},
	"suspendUser":        {access: operators},
	"restoreUser":        {access: operators},
	"createResetLink":    rule{access: operators}.costs(rest.Mailing),
	"resetFactors":       {access: operators},
	"listInstanceTeams":  {access: operators},
	"createInstanceTeam": {access: operators},
	"suspendTeam":        {access: operators},
	"restoreTeam":        {access: operators},
	"getMail":            {access: operators},
	"testMail":           rule{access: operators, body: 16 << 10}.costs(rest.Mailing),

	"listInstanceRunners":  {access: operators},
	"revokeInstanceRunner": {access: operators},

	// Whose machine it is decides beyond the role: see places.Machines.
	"listRunners":       of(accounts.ViewTeam, byTeam),
	"createRunner":      of(accounts.ConnectRunner, byTeam),
	"listRunnerTokens":  of(accounts.ViewTeam, byTeam),
	"revokeRunnerToken": of(accounts.ViewTeam, byRunnerToken).needing(accounts.ScopeAdmin),
	"getRunner":         of(accounts.ViewTeam, byRunner),
	"updateRunner":      of(accounts.ViewTeam, byRunner).needing(accounts.ScopeAdmin),
	"revokeRunner":      of(accounts.ViewTeam, byRunner).needing(accounts.ScopeAdmin),
	"regenerateRunner":  of(accounts.ConnectRunner, byRunner),
	"listRunnerHistory": of(accounts.ViewTeam, byRunner),
	"listRunnerFolders": of(accounts.ViewTeam, byRunner),

	"listMySecrets":  {access: signedIn},
	"createMySecret": rule{access: signedIn}.confirmed(),
	"updateSecret":   rule{access: signedIn}.confirmed(), // one's own, or a team's: the service asks for ManageSecrets there
	"deleteSecret":   rule{access: signedIn}.confirmed(), // likewise
	"listSecrets":    of(accounts.TypeTerminal, byTeam),
	"createSecret":   of(accounts.ManageSecrets, byTeam).confirmed(),

	// Quotas and budgets.
	"getTeamQuotas":         of(accounts.ViewCosts, byTeam),
	"setTeamQuotas":         of(accounts.ManageQuotas, byTeam),
	"getTeamBudget":         of(accounts.ViewCosts, byTeam),
	"setTeamBudget":         of(accounts.ManageQuotas, byTeam),
	"getMyQuotas":           {access: signedIn},
	"listPlans":             {access: operators},
	"createPlan":            {access: operators},
	"setDefaultPlan":        {access: operators},
	"updatePlan":            {access: operators},
	"deletePlan":            {access: operators},
	"getInstanceTeamPlan":   {access: operators},
	"setInstanceTeamPlan":   {access: operators},
	"getInstanceTeamQuotas": {access: operators},
	"setInstanceTeamQuotas": {access: operators},
	"getKillSwitch":         {access: operators},
	"setKillSwitch":         {access: operators},

	"getTeam":         of(accounts.ViewTeam, byTeam),
	"updateTeam":      of(accounts.ManageTeam, byTeam),
	"listInvites":     of(accounts.InviteMember, byTeam),
	"createInvite":    of(accounts.InviteMember, byTeam).costs(rest.Mailing), // of an owner or admin: its handler asks who it is
	"revokeInvite":    of(accounts.InviteMember, byInvite),
	"getTrash":        of(accounts.ViewWorkspace, byTeam),
	"restoreTrashed":  of(accounts.EditWorkspace, byTeam), // a project asks for more
	"purgeTrashed":    of(accounts.ManageTeam, byTeam),
	"getDisk":         of(accounts.ViewTeam, byTeam).costs(rest.Measuring),
	"freeDisk":        of(accounts.ManageTeam, byTeam).costs(rest.Measuring),
	"getTeamCaches":   of(accounts.ViewTeam, byTeam).costs(rest.Measuring),
	"emptyTeamCaches": of(accounts.ManageTeam, byTeam).costs(rest.Measuring),
	"getTeamPlaces":   of(accounts.ViewTeam, byTeam),
	"setTeamPlaces":   of(accounts.ManageTeam, byTeam),
	"explainPlace":    of(accounts.ViewTeam, byTeam),
	"getPlaceWishes":  of(accounts.ViewTeam, byTeam),
	"setPlaceWishes":  of(accounts.CreateWorkspace, byTeam),
	"getPlaceRights":  of(accounts.ManageTeam, byTeam),
	"setPlaceRights":  of(accounts.ManageTeam, byTeam),
	"listMembers":     of(accounts.ViewTeam, byTeam),
	"getMemberAvatar": of(accounts.ViewTeam, byTeam),
	"addMember":       of(accounts.ManageMember, byTeam).costs(rest.Mailing), // an invite: see createInvite
	"updateMember":    of(accounts.ManageMember, byTeam).confirmed(),
	"removeMember":    of(accounts.ViewTeam, byTeam).needing(accounts.ScopeAdmin), // members may leave; the service asks for more to remove another
	"listExecutors":   of(accounts.ViewTeam, byTeam),
	"listTools":       of(accounts.ViewTeam, byTeam),
	"listAgents":      of(accounts.ViewTeam, byTeam),
	"listModels":      of(accounts.ViewTeam, byTeam),

	"listTeamAgentAccounts": of(accounts.ViewTeam, byTeam),
	"addTeamAgentAccount":   of(accounts.ManageTeam, byTeam),

	"followEvents": of(accounts.ViewTeam, byTeam).overSocket(),

	"listTeamAudit":       of(accounts.ReadAudit, byTeam),
	"exportTeamAudit":     of(accounts.ReadAudit, byTeam).costs(rest.Exporting),
	"listInstanceAudit":   {access: operators},
	"exportInstanceAudit": rule{access: operators}.costs(rest.Exporting),

	"listWebhooks":   of(accounts.ManageTeam, byTeam),
	"createWebhook":  of(accounts.ManageTeam, byTeam),
	"updateWebhook":  of(accounts.ManageTeam, byWebhook),
	"deleteWebhook":  of(accounts.ManageTeam, byWebhook),
	"testWebhook":    of(accounts.ManageTeam, byWebhook).costs(rest.Reaching),
	"listDeliveries": of(accounts.ManageTeam, byWebhook),
	"redeliver":      of(accounts.ManageTeam, byWebhook).costs(rest.Reaching),

	// Its handler sends what is asked through the guard of each operation, with the same token: see mcp.go.
	"readBatch": rule{access: signedIn, body: batchBody}.unscoped(), // each read meets its own rule
	"callMcp":   rule{access: signedIn, body: maxMCP}.unscoped(),

	// What the payment service sends is signed; its handler looks at that: see stripe.go.
	"stripeWebhook": {access: anyone, ownProof: true, body: stripe.MostWebhook},
	// The model gateway.
	"getGateway":             {access: operators},
	"listModelPrices":        {access: operators},
	"addModelPrice":          {access: operators},
	"getInstanceModelLimits": {access: operators},
	"setInstanceModelLimits": {access: operators},
	"getModelLimits":         of(accounts.ViewTeam, byTeam),
	"setModelLimits":         of(accounts.ManageQuotas, byTeam),
	"listTeamModelRequests":  of(accounts.ViewCosts, byTeam),
	"listModelRequests":      of(accounts.ViewCosts, bySession),

	"getBilling":     of(accounts.ViewCosts, byTeam),
	"beginCheckout":  of(accounts.ManageQuotas, byTeam),
	"openPortal":     of(accounts.ManageQuotas, byTeam),
	"syncBilling":    of(accounts.ManageQuotas, byTeam).costs(rest.Reaching),
	"listInvoices":   of(accounts.ManageQuotas, byTeam),
	"liftSuspension": {access: operators},

	"getInstanceBilling": {access: operators},
	"reconcileBilling":   {access: operators},
	"syncTeamBilling":    {access: operators},
	"retryReport":        {access: operators},
	"retryBillingEvent":  {access: operators},
	"retryOutgoing":      {access: operators},
	"acceptDiscrepancy":  {access: operators},

	"browseFolders": of(accounts.ManageProject, byTeam),
	"searchFolders": of(accounts.ManageProject, byTeam).costs(rest.Searching),
	"listProjects":  of(accounts.ViewProject, byTeam),
	"createProject": of(accounts.ManageProject, byTeam).repeatable().costs(rest.Cloning),
	"getProject":    of(accounts.ViewProject, byProject),
	"updateProject": of(accounts.ManageProject, byProject),
	"deleteProject": of(accounts.ManageProject, byProject),
	"listBranches":  of(accounts.ViewProject, byProject), // fetching first asks for more
	"suggestBranch": of(accounts.ViewProject, byProject),

	"findProjectPaths": of(accounts.ViewProject, byProject),

	"getProjectTools":  of(accounts.ViewProject, byProject),
	"setProjectTools":  of(accounts.ManageProject, byProject),
	"getProjectImage":  of(accounts.ViewProject, byProject),
	"listImageBuilds":  of(accounts.ViewProject, byProject),
	"buildImage":       of(accounts.ManageProject, byProject).repeatable().costs(rest.Building), // runs what the repository says, with a network
	"getImageBuild":    of(accounts.ViewProject, byImageBuild),
	"cancelImageBuild": of(accounts.ManageProject, byImageBuild),
	"getImageBuildLog": of(accounts.ViewProject, byImageBuild),

	// A job has an agent work in a workspace that is made for it: its handler asks for TypeTerminal, too.
	"listJobs":  of(accounts.ViewWorkspace, byTeam),
	"createJob": of(accounts.CreateWorkspace, byTeam),
	"getJob":    of(accounts.ViewWorkspace, byJob),
	"followJob": of(accounts.ViewWorkspace, byJob),
	"cancelJob": of(accounts.TypeTerminal, byJob),
	"deleteJob": of(accounts.TypeTerminal, byJob),

	// An automation runs as its owner: the handlers let nobody else change what it does.
	"listAutomations":       of(accounts.ViewWorkspace, byTeam),
	"createAutomation":      of(accounts.CreateWorkspace, byTeam),
	"previewAutomation":     of(accounts.CreateWorkspace, byTeam),
	"getAutomation":         of(accounts.ViewWorkspace, byAutomation),
	"updateAutomation":      of(accounts.TypeTerminal, byAutomation),
	"deleteAutomation":      of(accounts.TypeTerminal, byAutomation),
	"runAutomation":         of(accounts.TypeTerminal, byAutomation),
	"renewAutomationSecret": of(accounts.TypeTerminal, byAutomation),
	"listAutomationRuns":    of(accounts.ViewWorkspace, byAutomation),
	"reportEvent":           {access: anyone, ownProof: true, body: triggers.MaxPayload}, // see triggers.Service.Report

	"listWorkspaces":  of(accounts.ViewWorkspace, byTeam),
	"createWorkspace": rule{access: member, action: accounts.CreateWorkspace, find: byTeam, body: 32 << 20}.repeatable(), // with a first session it asks for TypeTerminal, too; attachments in base64
	"getWorkspace":    of(accounts.ViewWorkspace, byWorkspace),
	"updateWorkspace": of(accounts.EditWorkspace, byWorkspace),
	"deleteWorkspace": of(accounts.EditWorkspace, byWorkspace),
	"cancelWorkspace": of(accounts.EditWorkspace, byWorkspace),
	"retryWorkspace":  of(accounts.EditWorkspace, byWorkspace),

	"muteWorkspace":   of(accounts.ViewWorkspace, byWorkspace), // one's own wish
	"unmuteWorkspace": of(accounts.ViewWorkspace, byWorkspace),

	"startFirstSession":  of(accounts.TypeTerminal, byWorkspace).working(),
	"forgetFirstSession": of(accounts.TypeTerminal, byWorkspace),

	"archiveWorkspace": of(accounts.EditWorkspace, byWorkspace),
	"restoreWorkspace": of(accounts.EditWorkspace, byWorkspace),
	"getLoss":          of(accounts.ViewWorkspace, byWorkspace),

	"listWorkspacePlaces":   of(accounts.ViewWorkspace, byWorkspace),
	"explainWorkspacePlace": of(accounts.ViewWorkspace, byWorkspace),

	"listActivity": of(accounts.ViewWorkspace, byWorkspace),

	"getChanges":         of(accounts.ViewWorkspace, byWorkspace),
	"syncWorkspace":      of(accounts.EditWorkspace, byWorkspace), // may start a sandbox
	"getSync":            of(accounts.ViewWorkspace, byWorkspace),
	"getDiff":            of(accounts.ViewWorkspace, byWorkspace),
	"compareWorkspace":   of(accounts.ViewWorkspace, byWorkspace).costs(rest.Comparing),
	"comparePatch":       of(accounts.ViewWorkspace, byWorkspace).costs(rest.Comparing),
	"compareFile":        of(accounts.ViewWorkspace, byWorkspace),
	"searchCompare":      of(accounts.ViewWorkspace, byWorkspace).costs(rest.Searching),
	"listTimeline":       of(accounts.ViewWorkspace, byWorkspace),
	"getSnapshot":        of(accounts.ViewWorkspace, bySnapshot),
	"updateSnapshot":     of(accounts.EditWorkspace, bySnapshot),
	"deleteSnapshot":     of(accounts.EditWorkspace, bySnapshot),
	"restoreSnapshot":    of(accounts.EditWorkspace, bySnapshot).working().repeatable().costs(rest.Snapshots),
	"createSnapshot":     of(accounts.EditWorkspace, byWorkspace).repeatable().costs(rest.Snapshots),
	"listCheckpoints":    of(accounts.ViewWorkspace, byWorkspace),
	"createCheckpoint":   of(accounts.EditWorkspace, byWorkspace).repeatable().costs(rest.Snapshots),
	"getCheckpoint":      of(accounts.ViewTerminal, byCheckpoint), // it tells what was asked and answered
	"deleteCheckpoint":   of(accounts.EditWorkspace, byCheckpoint),
	"diffCheckpoint":     of(accounts.ViewWorkspace, byCheckpoint).costs(rest.Comparing),
	"restoreCheckpoint":  of(accounts.EditWorkspace, byCheckpoint).working().repeatable().costs(rest.Snapshots),
	"listEdits":          of(accounts.ViewWorkspace, byWorkspace),
	"getEdit":            of(accounts.ViewWorkspace, byWorkspace).costs(rest.Comparing),
	"undoEdit":           of(accounts.EditWorkspace, byWorkspace).working().repeatable().costs(rest.Snapshots),
	"listCommits":        of(accounts.ViewWorkspace, byWorkspace),
	"getReport":          of(accounts.ViewTerminal, byWorkspace).costs(rest.Comparing), // tells what was asked and run; its costs ask for ViewCosts
	"attachReport":       of(accounts.MergeWorkspace, byWorkspace).repeatable(),
	"settleSyncConflict": of(accounts.EditWorkspace, byConflict),
	"getIndex":           of(accounts.ViewWorkspace, byWorkspace),
	"getParts":           of(accounts.ViewWorkspace, byWorkspace),
	"stageParts":         of(accounts.EditWorkspace, byWorkspace).working(),
	"discardParts":       of(accounts.EditWorkspace, byWorkspace).working(),
	"takeFiles":          of(accounts.EditWorkspace, byWorkspace).working(),
	"renameFile":         of(accounts.EditWorkspace, byWorkspace).working(),
	"commitWorkspace":    of(accounts.EditWorkspace, byWorkspace).working().repeatable(),
	"mergeWorkspace":     of(accounts.MergeWorkspace, byWorkspace).repeatable(),
	"getChecks":          of(accounts.ViewWorkspace, byWorkspace),
	"runChecks":          of(accounts.EditWorkspace, byWorkspace).working().repeatable(),
	"cancelCheckRun":     of(accounts.EditWorkspace, byCheckRun),
	"getCheckOutput":     of(accounts.ViewWorkspace, byCheckRun),
	"getQueued":          of(accounts.ViewWorkspace, byWorkspace),
	"enqueueMerge":       of(accounts.MergeWorkspace, byWorkspace).working().repeatable(),
	"dequeueMerge":       of(accounts.MergeWorkspace, byWorkspace),
	"listMergeQueue":     of(accounts.ViewProject, byProject),
	"listOverlaps":       of(accounts.ViewProject, byProject),
	"deliverWorkspace":   of(accounts.EditWorkspace, byWorkspace).repeatable(),
	"getMergeStatus":     of(accounts.ViewWorkspace, byWorkspace),
	"updateFromBase":     of(accounts.EditWorkspace, byWorkspace).working().repeatable(),
	"resolveUpdate":      of(accounts.EditWorkspace, byWorkspace).working().repeatable(), // its handler also requires TypeTerminal when it prompts an agent
	"getConflicts":       of(accounts.ViewWorkspace, byWorkspace),                        // its handler asks for EditWorkspace where a sandbox is woken
	"decideConflicts":    of(accounts.EditWorkspace, byWorkspace).working().repeatable(),
	"getConflictFile":    of(accounts.ViewWorkspace, byWorkspace),
	"pushWorkspace":      of(accounts.EditWorkspace, byWorkspace).repeatable(), // its handler asks for MergeWorkspace where the base is pushed
	"listGitWork":        of(accounts.ViewProject, byProject),
	"cancelGitWork":      of(accounts.CreateWorkspace, byProject), // its handler asks for EditWorkspace where it is a workspace's

	// move
	"planMove":      of(accounts.ViewWorkspace, byWorkspace),
	"moveWorkspace": of(accounts.EditWorkspace, byWorkspace),
	"cancelMove":    of(accounts.EditWorkspace, byWorkspace),
	"listMoves":     of(accounts.ViewWorkspace, byWorkspace),

	// reviews
	"listViewed":    of(accounts.ViewWorkspace, byWorkspace),
	"setViewed":     of(accounts.ViewWorkspace, byWorkspace).needing(accounts.ScopeWrite), // a user's own view of it
	"listReviews":   of(accounts.ViewWorkspace, byWorkspace),
	"getDraft":      of(accounts.ViewWorkspace, byWorkspace),
	"writeDraft":    of(accounts.EditWorkspace, byWorkspace),
	"deleteDraft":   of(accounts.EditWorkspace, byWorkspace),
	"createComment": of(accounts.EditWorkspace, byWorkspace).repeatable(),
	"updateComment": of(accounts.EditWorkspace, byComment), // the service asks whose it is
	"deleteComment": of(accounts.EditWorkspace, byComment),
	"sendReview":    of(accounts.EditWorkspace, byWorkspace).repeatable(), // and the right to merge, or to type to an agent
	"cancelReview":  of(accounts.EditWorkspace, byReview),

	// forge
	"getProjectForge":    of(accounts.ViewProject, byProject),
	"getPullRequest":     of(accounts.ViewWorkspace, byWorkspace),
	"proposePullRequest": of(accounts.EditWorkspace, byWorkspace),
	"openPullRequest":    of(accounts.EditWorkspace, byWorkspace).repeatable(),
	"refreshPullRequest": of(accounts.EditWorkspace, byWorkspace).costs(rest.Reaching), // speaks to the forge with credentials
	"mergePullRequest":   of(accounts.MergeWorkspace, byWorkspace).repeatable(),
	"readyPullRequest":   of(accounts.EditWorkspace, byWorkspace),
	"closePullRequest":   of(accounts.EditWorkspace, byWorkspace),
	"getTending":         of(accounts.ViewWorkspace, byWorkspace),
	"setTending":         of(accounts.TypeTerminal, byWorkspace), // and for the rights to all that is done, in Set
	"endTending":         of(accounts.EditWorkspace, byWorkspace),

	"readFile":   of(accounts.ViewWorkspace, byWorkspace),
	"listTree":   of(accounts.ViewWorkspace, byWorkspace),
	"writeFile":  {access: member, action: accounts.EditWorkspace, find: byWorkspace, body: rest.MaxFile, works: true},
	"deleteFile": of(accounts.EditWorkspace, byWorkspace).working(),

	"createFolder":   of(accounts.EditWorkspace, byWorkspace).working(),
	"listPaths":      of(accounts.ViewWorkspace, byWorkspace).costs(rest.Searching),
	"findInFiles":    of(accounts.ViewWorkspace, byWorkspace).costs(rest.Searching),
	"downloadFolder": of(accounts.ViewWorkspace, byWorkspace).costs(rest.Exporting),

	"listTeamSandboxes": of(accounts.ViewTeam, byTeam), // their own, unless they manage the team
	"createSandbox":     of(accounts.EditWorkspace, byTeam).repeatable(),
	"getApiSandbox":     of(accounts.ViewWorkspace, byManagedSandbox),
	"deleteApiSandbox":  of(accounts.EditWorkspace, byManagedSandbox),
	"extendApiSandbox":  of(accounts.EditWorkspace, byManagedSandbox),
	"updateApiSandbox":  of(accounts.EditWorkspace, bySandbox),
	"readSandboxFile":   of(accounts.ViewWorkspace, bySandbox),
	"listSandboxFiles":  of(accounts.ViewWorkspace, bySandbox),
	"statSandboxFile":   of(accounts.ViewWorkspace, bySandbox),
	"writeSandboxFile":  {access: member, action: accounts.EditWorkspace, find: bySandbox, body: rest.MaxFile, works: true},
	"deleteSandboxFile": of(accounts.EditWorkspace, bySandbox).working(),
	"execInSandbox":     of(accounts.EditWorkspace, bySandbox).working(),
	"runCodeInSandbox":  rule{access: member, action: accounts.EditWorkspace, find: bySandbox, body: code.MaxCode*6 + 4<<10}.working(),
	"getSandboxPort":    of(accounts.EditWorkspace, bySandbox).working(),

	"runCode":                rule{access: member, action: accounts.EditWorkspace, find: byWorkspace, body: code.MaxCode*6 + 4<<10}.working().repeatable(),
	"listCodeRuns":           of(accounts.ViewTerminal, byWorkspace), // what was printed
	"getCodeRun":             of(accounts.ViewTerminal, byCodeRun),
	"interruptCode":          of(accounts.EditWorkspace, byCodeRun),
	"listKernels":            of(accounts.ViewWorkspace, byWorkspace),
	"stopKernel":             of(accounts.EditWorkspace, byWorkspace),
	"execCommand":            of(accounts.EditWorkspace, byWorkspace).working().repeatable(),
	"callTool":               rule{access: member, action: accounts.EditWorkspace, find: byWorkspace, body: tools.MaxArguments + 4<<10}.working().repeatable(),
	"listArtifacts":          of(accounts.ViewWorkspace, byWorkspace),
	"createArtifact":         {access: member, action: accounts.EditWorkspace, find: byWorkspace, body: rest.MaxFile},
	"listProjectArtifacts":   of(accounts.ViewProject, byProject), // leaves out those of others' private workspaces
	"getArtifact":            of(accounts.ViewWorkspace, byArtifact),
	"deleteArtifact":         of(accounts.EditWorkspace, byArtifact),
	"getArtifactContent":     of(accounts.ViewWorkspace, byArtifact),
	"listArtifactLinks":      of(accounts.ShareSession, byArtifact),
	"createArtifactLink":     of(accounts.ShareSession, byArtifact),
	"revokeArtifactLink":     of(accounts.ShareSession, byArtifactLink), // one's own; the service asks for ManageTeam for another's
	"getSharedArtifact":      {access: anyone},                          // the link's token is in the path
	"listSubagents":          of(accounts.ViewTerminal, bySession),
	"spawnSubagent":          of(accounts.TypeTerminal, bySession).working().repeatable(),
	"getSubagent":            of(accounts.ViewTerminal, bySubagent),
	"messageSubagent":        of(accounts.TypeTerminal, bySubagent).working().repeatable(),
	"interruptSubagent":      of(accounts.TypeTerminal, bySubagent),
	"mergeSubagent":          of(accounts.EditWorkspace, bySubagent).working().repeatable(),
	"listWorkspaceSubagents": of(accounts.ViewTerminal, byWorkspace),

	"getCommand":     of(accounts.ViewWorkspace, byCommand),
	"cancelCommand":  of(accounts.EditWorkspace, byCommand),
	"getNetwork":     of(accounts.ViewWorkspace, byWorkspace),
	"allowHost":      of(accounts.AllowHost, byWorkspace),
	"disallowHost":   of(accounts.AllowHost, byWorkspace),
	"getSandbox":     of(accounts.ViewWorkspace, byWorkspace),
	"listPorts":      of(accounts.ViewWorkspace, byWorkspace),
	"listPortLinks":  of(accounts.ShareSession, byWorkspace),
	"createPortLink": of(accounts.ShareSession, byWorkspace),
	"revokePortLink": of(accounts.ShareSession, byWorkspace), // one's own; ManageTeam for another's
	"getPort":        of(accounts.EditWorkspace, byWorkspace).working(),
	"openPort":       of(accounts.EditWorkspace, byWorkspace).working(), // what a page asks of a program there is work
	"fallBack":       of(accounts.EditWorkspace, byWorkspace),
	"getOwnSecrets":  of(accounts.TypeTerminal, byWorkspace),
	"setOwnSecrets":  of(accounts.TypeTerminal, byWorkspace),
	"getLimits":      of(accounts.ViewWorkspace, byWorkspace),
	"setLimits":      of(accounts.EditWorkspace, byWorkspace),
	"pauseSandbox":   of(accounts.EditWorkspace, byWorkspace),
	"wakeSandbox":    of(accounts.EditWorkspace, byWorkspace),
	"destroySandbox": of(accounts.EditWorkspace, byWorkspace),

	"listTasks":            of(accounts.ViewWorkspace, byTeam),
	"createTask":           of(accounts.EditWorkspace, byTeam).repeatable(),
	"exportTasks":          of(accounts.ViewWorkspace, byTeam).costs(rest.Exporting),
	"importTasks":          {access: member, action: accounts.EditWorkspace, find: byTeam, body: 2 * tasks.MaxImport}, // as text in JSON
	"getTask":              of(accounts.ViewWorkspace, byTask),
	"updateTask":           of(accounts.EditWorkspace, byTask),
	"claimTask":            of(accounts.EditWorkspace, byTask),
	"closeTask":            of(accounts.EditWorkspace, byTask),
	"addTaskDependency":    of(accounts.EditWorkspace, byTask),
	"removeTaskDependency": of(accounts.EditWorkspace, byTask),
	"retryTaskIssue":       of(accounts.EditWorkspace, byTask),
	"attachTaskArtifact":   of(accounts.EditWorkspace, byTask),
	"detachTaskArtifact":   of(accounts.EditWorkspace, byTask),
	"writeTasksFile":       of(accounts.EditWorkspace, byWorkspace).costs(rest.Exporting),
	"getTaskSettings":      of(accounts.ViewProject, byProject),
	"updateTaskSettings":   of(accounts.ManageProject, byProject),
	"syncIssues":           of(accounts.EditWorkspace, byProject),
	"listIssueOutbox":      of(accounts.ViewProject, byProject),
	"workOnTask":           of(accounts.CreateWorkspace, byTask).repeatable(), // and the right to type, for an agent

	"listPermissionRules":      of(accounts.ViewProject, byProject),
	"createPermissionRule":     of(accounts.ManageProject, byProject).repeatable(),
	"tryPermissionRules":       of(accounts.ViewProject, byProject),
	"listTeamPermissionRules":  of(accounts.ViewTeam, byTeam),
	"createTeamPermissionRule": of(accounts.ManageTeam, byTeam).repeatable(),
	"tryTeamPermissionRules":   of(accounts.ViewTeam, byTeam),
	"deletePermissionRule":     of(accounts.ManageProject, byRule), // one of a team: ManageTeam, too

	"listMemory":   of(accounts.ViewProject, byProject),
	"createMemory": of(accounts.EditWorkspace, byProject).repeatable(),
	"deleteMemory": of(accounts.EditWorkspace, byMemory),

	"listSkills":             of(accounts.ViewWorkspace, byTeam),
	"createSkill":            of(accounts.EditWorkspace, byTeam).repeatable(),
	"getSkill":               of(accounts.ViewWorkspace, bySkill),
	"updateSkill":            of(accounts.EditWorkspace, bySkill),
	"deleteSkill":            of(accounts.EditWorkspace, bySkill),
	"listSkillVersions":      of(accounts.ViewWorkspace, bySkill),
	"getTeamInstructions":    of(accounts.ViewTeam, byTeam),
	"setTeamInstructions":    of(accounts.ManageTeam, byTeam),
	"getTeamAgentLimits":     of(accounts.ViewTeam, byTeam),
	"setTeamAgentLimits":     of(accounts.ManageTeam, byTeam),
	"getProjectAgentLimits":  of(accounts.ViewProject, byProject),
	"setProjectAgentLimits":  of(accounts.ManageProject, byProject),
	"getProjectInstructions": of(accounts.ViewProject, byProject),
	"setProjectInstructions": of(accounts.ManageProject, byProject),

	"getProjectLanguages": of(accounts.ViewProject, byProject),
	"setProjectLanguages": of(accounts.ManageProject, byProject),
	"listLanguages":       of(accounts.ViewWorkspace, byWorkspace),
	"getDiagnostics":      of(accounts.ViewWorkspace, byWorkspace),
	"getHover":            of(accounts.ViewWorkspace, byWorkspace),
	"findDefinition":      of(accounts.ViewWorkspace, byWorkspace),
	"findReferences":      of(accounts.ViewWorkspace, byWorkspace),
	"listSymbols":         of(accounts.ViewWorkspace, byWorkspace),
	"listCompletions":     of(accounts.ViewWorkspace, byWorkspace),

	"listRuns":  of(accounts.ViewWorkspace, byTeam),
	"createRun": of(accounts.CreateWorkspace, byTeam).repeatable(), // and the right to type
	"getRun":    of(accounts.ViewWorkspace, byRun),
	"keepRun":   of(accounts.EditWorkspace, byRun),

	"listPrompts":      of(accounts.ViewTerminal, bySession),
	"createPrompt":     of(accounts.TypeTerminal, bySession).working().repeatable(),
	"updatePrompt":     of(accounts.TypeTerminal, byPrompt).working(),
	"deletePrompt":     of(accounts.TypeTerminal, byPrompt),
	"interruptSession": of(accounts.TypeTerminal, bySession),

	"getSessionThread":   of(accounts.ViewTerminal, bySession),
	"getThread":          of(accounts.ViewTerminal, byThread),
	"followThread":       of(accounts.ViewTerminal, byThread),
	"getThreadMedia":     of(accounts.ViewTerminal, byThread),
	"sendToThread":       rule{access: member, action: accounts.TypeTerminal, find: byThread, body: 32 << 20}.working().repeatable(), // attachments in base64
	"interruptThread":    of(accounts.TypeTerminal, byThread),
	"updateThread":       of(accounts.TypeTerminal, byThread),
	"forkThread":         of(accounts.TypeTerminal, byThread).working().repeatable(),
	"undoThread":         of(accounts.TypeTerminal, byThread).working().repeatable(),
	"compactThread":      of(accounts.TypeTerminal, byThread).working(),
	"clearThread":        of(accounts.TypeTerminal, byThread),
	"listThreadCommands": of(accounts.TypeTerminal, byThread),

	"listToolCalls":        of(accounts.ViewTerminal, byWorkspace),
	"exportToolCalls":      of(accounts.ViewTerminal, byWorkspace).costs(rest.Exporting),
	"listSessionToolCalls": of(accounts.ViewTerminal, bySession),

	"getConversation":   of(accounts.ViewTerminal, bySession),
	"listConversations": of(accounts.ViewTerminal, byWorkspace),

	"listSessions":        of(accounts.ViewWorkspace, byWorkspace),
	"createSession":       of(accounts.TypeTerminal, byWorkspace).working().repeatable(),
	"getSession":          of(accounts.ViewWorkspace, bySession),
	"stopSession":         of(accounts.TypeTerminal, bySession),
	"resumeSession":       of(accounts.TypeTerminal, bySession).working().repeatable(),
	"sendInput":           of(accounts.TypeTerminal, bySession).working().repeatable(),
	"correctState":        of(accounts.TypeTerminal, bySession),
	"getOutput":           of(accounts.ViewTerminal, bySession),
	"getScreen":           of(accounts.ViewTerminal, bySession),
	"getScrollback":       of(accounts.ViewTerminal, bySession),
	"searchHistory":       of(accounts.ViewTerminal, byWorkspace).costs(rest.Searching),
	"getTeamStorage":      of(accounts.ViewTeam, byTeam),
	"getWorkspaceStorage": of(accounts.ViewWorkspace, byWorkspace),
	"getTiming":           of(accounts.ViewTerminal, bySession),
	"getMoment":           of(accounts.ViewTerminal, bySession),
	"exportSession":       of(accounts.ViewTerminal, bySession).costs(rest.Exporting),
	"getJournal":          of(accounts.ViewTerminal, bySession),
	"listQuestions":       of(accounts.ViewTerminal, bySession),
	"answerQuestion":      of(accounts.AnswerQuestion, bySession).working(),
	"attachTerminal":      of(accounts.ViewTerminal, bySession).overSocket(), // typing asks for more

	"getDesktop":     of(accounts.ViewWorkspace, byWorkspace),
	"startDesktop":   of(accounts.EditWorkspace, byWorkspace).working(),
	"closeDesktop":   of(accounts.EditWorkspace, byWorkspace),
	"controlDesktop": of(accounts.TypeTerminal, byWorkspace).working(),
	"watchDesktop":   of(accounts.ViewTerminal, byWorkspace).overSocket(), // input asks for more

	"watchBrowser": of(accounts.ViewTerminal, byWorkspace).overSocket(), // input asks for more

	"getInbox":        of(accounts.ViewWorkspace, byTeam),
	"snoozeInboxItem": of(accounts.ViewWorkspace, byInboxItem).needing(accounts.ScopeWrite), // a user's own view of it
	"finishInboxItem": of(accounts.ViewWorkspace, byInboxItem).needing(accounts.ScopeWrite),
	"reopenInboxItem": of(accounts.ViewWorkspace, byInboxItem).needing(accounts.ScopeWrite),
}

// admit decides whether the call's actor may use the operation. What does not exist and what is not theirs look the same to
// people outside the team; a member without the right learns which one is missing.
func (s *Server) admit(ctx context.Context, c echo.Context, r rule, call *rest.Call) error {
	if err := s.admitTo(ctx, c, r, call); err != nil {
		return err
	}
	if r.confirm {
		if err := s.cfg.SignIn.NeedConfirmed(call.Actor); err != nil {
			return err
		}
	}
	if r.cost != "" {
		return s.throttle.Take(r.cost, call.Actor.User.ID, call.Object.TeamID)
	}
	return nil
}

func (s *Server) admitTo(ctx context.Context, c echo.Context, r rule, call *rest.Call) error {
	switch r.access {
	case anyone:
		return nil
	case signedIn: // the guard has seen to it
		if r.any {
			return nil
		}
		return accounts.NeedAccount(call.Actor)
	case operators, scrapers:
		if r.access == scrapers && s.scrapesLocally(c.Request()) {
			return nil
		}
		if !call.Actor.User.Operator {
			return fault.New(fault.Forbidden, "operators_only", "Only operators of this server may do this. Ask one of them.")
		}
		if c.Param("id") != "" {
			if _, err := rest.PathID(c); err != nil {
				return err
			}
		}
		return accounts.NeedAccount(call.Actor)
	case member:
	default:
		return fault.New(fault.Internal, "internal", "This operation has no rule.")
	}
	object, err := r.find(s)(ctx, c, call)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			return rest.ErrNotFound
		}
		return err
	}
	if err := accounts.Can(call.Actor, r.action, object); err != nil {
		call.NamesTeam(err, object)
		if fault.Is(err, fault.NotFound) {
			return rest.ErrNotFound
		}
		return err
	}
	if r.scope != "" {
		if err := accounts.NeedScope(call.Actor, r.scope); err != nil {
			call.NamesTeam(err, object)
			return err
		}
	}
	call.Object = object
	if r.works {
		if err := s.Works(ctx, call); err != nil {
			return err
		}
	}
	for _, m := range call.Actor.Memberships {
		if m.Team.ID == object.TeamID {
			call.Team = m.Team
		}
	}
	return nil
}
