package server

// routeTable lists by hand, for every operation of openapi.yaml, who may use it. It is independent of policy.go, so that each checks the
// other. A new route needs its line here.
//
// who: public = anybody; open = anybody, pages of other origins included; page = anybody, answered with a page; self = whoever is signed in, about themselves; operator = operators of the server; scraper = operators, and
// programs of this machine; viewer, member, admin, owner = members of the team with at least this role; theirs = the user alone whose it is, here the owner; managed = that user, and owners and admins of the team; socket = whoever has the cookie of
// a link; machine = members' machines, which show a key of their own: no cookie counts. scope: what a bounded API token must have: read, write, attach, bill, admin; - = none in particular.
const routeTable = `
getHealth               public    -
getSetup                public    -
setup                   public    -
login                   public    -
getSpec                 public    -
previewInvite              public    -
acceptInvite            public    -
getSignIn               public    -
getLoginWaiting         public    -
loginFactor             public    -
loginPasskeyOptions     public    -
loginPasskey            public    -
forgotPassword          public    -
resetPassword           public    -
beginProviderLogin      public    -
finishProviderLogin     public    -
getDocs                 public    -
getProtectedResource    open      -
getAuthorizationServer  open      -
registerOauthClient     open      -
issueOauthToken         open      -
revokeOauthToken        open      -
getConsent              page      -
giveConsent             page      -
enrolRunner             public    -
connectRunner           machine   -
listRunnerDownloads     public    -
getRunnerDownload       public    -
openWatch               public    -
watchTerminal           socket    -
listWatchLinks          member    admin
createWatchLink         member    admin
revokeWatchLink         member    admin
listTeamWatchLinks      admin     admin
logout                  self      -
getMe                   self      -
getMySignIn             self      admin
confirm                 self      admin
confirmPasskeyOptions   self      admin
confirmPasskey          self      admin
beginTotp               self      admin
confirmTotp             self      admin
removeTotp              self      admin
renewRecoveryCodes      self      admin
passkeyOptions          self      admin
addPasskey              self      admin
renamePasskey           self      admin
removePasskey           self      admin
listLoginSessions       self      admin
endLoginSession         self      admin
endOtherLoginSessions   self      admin
changePassword          self      admin
listMyInvites           self      admin
acceptMyInvite          self      admin
declineMyInvite         self      admin
listTokens              self      admin
createToken             self      admin
deleteToken             self      admin
linkIdentity            self      admin
unlinkIdentity          self      admin
listAgentAccounts       self      admin
setAgentAccount         self      admin
deleteAgentAccount      self      admin
addAgentAccount         self      admin
updateAgentAccount      self      admin
removeAgentAccount      self      admin
testAgentAccount        self      admin
getNotifications        self      admin
setNotifications        self      admin
addPushSubscription     self      admin
deletePushSubscription  self      admin
testPushSubscription    self      admin
listTeams               self      -
getInstanceMetrics      operator  -
getInstanceUsage        operator  -
listPrices              operator  -
addPrice                operator  -
getTeamUsage            member    bill
getWorkspaceCosts       member    bill
getMetrics              scraper   -
createTeam              operator  -
getInstancePlaces       operator  -
setInstancePlaces       operator  -
getPlaceSettings        operator  -
setPlaceSettings        operator  -
testPlace               operator  -
getMail                 operator  -
testMail                operator  -
listUsers               operator  -
createUser              operator  -
getUser                 operator  -
updateUser              operator  -
suspendUser             operator  -
restoreUser             operator  -
createResetLink         operator  -
resetFactors            operator  -
listInstanceTeams       operator  -
createInstanceTeam      operator  -
suspendTeam             operator  -
restoreTeam             operator  -
listInstanceRunners     operator  -
revokeInstanceRunner    operator  -
listRunners             viewer    read
createRunner            member    admin
listRunnerTokens        viewer    read
revokeRunnerToken       viewer    admin
getRunner               viewer    read
updateRunner            viewer    admin
revokeRunner            viewer    admin
regenerateRunner        member    admin
listRunnerHistory       viewer    read
listRunnerFolders       viewer    read
listMySecrets           self      admin
createMySecret          self      admin
updateSecret            self      admin
deleteSecret            self      admin
listSecrets             member    attach
createSecret            admin     admin
getTeamQuotas           member    bill
setTeamQuotas           admin     admin
getTeamBudget           member    bill
setTeamBudget           admin     admin
getMyQuotas             self      admin
listPlans               operator  -
createPlan              operator  -
setDefaultPlan          operator  -
updatePlan              operator  -
deletePlan              operator  -
getInstanceTeamPlan     operator  -
setInstanceTeamPlan     operator  -
getInstanceTeamQuotas   operator  -
setInstanceTeamQuotas   operator  -
getKillSwitch           operator  -
setKillSwitch           operator  -
getTeam                 viewer    read
updateTeam              admin     admin
getBilling              member    bill
getGateway              operator  -
listModelPrices         operator  -
addModelPrice           operator  -
getInstanceModelLimits  operator  -
setInstanceModelLimits  operator  -
getModelLimits          viewer    read
setModelLimits          admin     admin
listTeamModelRequests   member    bill
listModelRequests       member    bill
beginCheckout           admin     admin
openPortal              admin     admin
syncBilling             admin     admin
listInvoices            admin     admin
liftSuspension          operator  -
getInstanceBilling      operator  -
reconcileBilling        operator  -
syncTeamBilling         operator  -
retryReport             operator  -
retryBillingEvent       operator  -
retryOutgoing           operator  -
acceptDiscrepancy       operator  -
stripeWebhook           public    -
callMcp                 self      -
listInvites             admin     admin
createInvite            admin     admin
revokeInvite            admin     admin
getTrash                viewer    read
restoreTrashed          member    write
purgeTrashed            admin     admin
getDisk                 viewer    read
freeDisk                admin     admin
getTeamCaches           viewer    read
emptyTeamCaches         admin     admin
getTeamPlaces           viewer    read
setTeamPlaces           admin     admin
listMembers             viewer    read
addMember               admin     admin
updateMember            admin     admin
removeMember            viewer    admin
listExecutors           viewer    read
listTools               viewer    read
listAgents              viewer    read
listTeamAgentAccounts   viewer    read
addTeamAgentAccount     admin     admin
followEvents            viewer    read
listTeamAudit           admin     admin
exportTeamAudit         admin     admin
listInstanceAudit       operator  -
exportInstanceAudit     operator  -
listWebhooks            admin     admin
createWebhook           admin     admin
updateWebhook           admin     admin
deleteWebhook           admin     admin
testWebhook             admin     admin
listDeliveries          admin     admin
redeliver               admin     admin
browseFolders           admin     admin
searchFolders           admin     admin
listProjects            viewer    read
createProject           admin     admin
getProject              viewer    read
updateProject           admin     admin
deleteProject           admin     admin
listBranches            viewer    read
suggestBranch           viewer    read
getProjectImage         viewer    read
getProjectTools         viewer    read
setProjectTools         admin     admin
listImageBuilds         viewer    read
buildImage              admin     admin
getImageBuild           viewer    read
cancelImageBuild        admin     admin
getImageBuildLog        viewer    read
listWorkspaces          viewer    read
createWorkspace         member    write
getWorkspace            viewer    read
updateWorkspace         member    write
deleteWorkspace         member    write
cancelWorkspace         member    write
retryWorkspace          member    write
archiveWorkspace        member    write
restoreWorkspace        member    write
getLoss                 viewer    read
listWorkspacePlaces     viewer    read
listActivity            viewer    read
getChanges              viewer    read
syncWorkspace           member    write
getSync                 viewer    read
getDiff                 viewer    read
compareWorkspace        viewer    read
comparePatch            viewer    read
compareFile             viewer    read
searchCompare           viewer    read
listTimeline            viewer    read
getSnapshot             viewer    read
updateSnapshot          member    write
deleteSnapshot          member    write
restoreSnapshot         member    write
createSnapshot          member    write
listCheckpoints         viewer    read
createCheckpoint        member    write
getCheckpoint           viewer    attach
deleteCheckpoint        member    write
diffCheckpoint          viewer    read
restoreCheckpoint       member    write
listEdits               viewer    read
getEdit                 viewer    read
undoEdit                member    write
listCommits             viewer    read
getReport               viewer    attach
attachReport            member    write
settleSyncConflict      member    write
commitWorkspace         member    write
getIndex                viewer    read
getParts                viewer    read
stageParts              member    write
discardParts            member    write
takeFiles               member    write
renameFile              member    write
mergeWorkspace          member    write
getChecks               viewer    read
runChecks               member    write
cancelCheckRun          member    write
getCheckOutput          viewer    read
getQueued               viewer    read
enqueueMerge            member    write
dequeueMerge            member    write
listMergeQueue          viewer    read
listOverlaps            viewer    read
deliverWorkspace        member    write
planMove                viewer    read
moveWorkspace           member    write
cancelMove              member    write
listMoves               viewer    read
listViewed              viewer    read
setViewed               viewer    write
listReviews             viewer    read
getDraft                viewer    read
writeDraft              member    write
deleteDraft             member    write
createComment           member    write
updateComment           member    write
deleteComment           member    write
sendReview              member    write
cancelReview            member    write
getMergeStatus             viewer    read
updateFromBase          member    write
resolveUpdate           member    write
getConflicts            viewer    read
decideConflicts         member    write
getConflictFile         viewer    read
pushWorkspace           member    write
listGitWork             viewer    read
cancelGitWork           member    write
getProjectForge         viewer    read
getPullRequest          viewer    read
proposePullRequest      member    write
openPullRequest         member    write
refreshPullRequest      member    write
mergePullRequest        member    write
readyPullRequest        member    write
closePullRequest        member    write
readFile                viewer    read
listTree                viewer    read
writeFile               member    write
deleteFile              member    write
execCommand             member    write
runCode                 member    write
listTeamSandboxes       viewer    read
createSandbox           member    write
getApiSandbox           managed   read
deleteApiSandbox        managed   write
extendApiSandbox        managed   write
updateApiSandbox        theirs    write
readSandboxFile         theirs    read
listSandboxFiles        theirs    read
statSandboxFile         theirs    read
writeSandboxFile        theirs    write
deleteSandboxFile       theirs    write
execInSandbox           theirs    write
runCodeInSandbox        theirs    write
getSandboxPort          theirs    write
listCodeRuns            viewer    attach
getCodeRun              viewer    attach
interruptCode           member    write
listKernels             viewer    read
stopKernel              member    write
callTool                member    write
listTasks               viewer    read
createTask              member    write
exportTasks             viewer    read
importTasks             member    write
getTask                 viewer    read
updateTask              member    write
claimTask               member    write
closeTask               member    write
addTaskDependency       member    write
removeTaskDependency    member    write
workOnTask              member    write
retryTaskIssue          member    write
attachTaskArtifact      member    write
detachTaskArtifact      member    write
writeTasksFile          member    write
getTaskSettings         viewer    read
updateTaskSettings      admin     admin
syncIssues              member    write
listIssueOutbox         viewer    read
getProjectLanguages     viewer    read
setProjectLanguages     admin     admin
listLanguages           viewer    read
getDiagnostics          viewer    read
getHover                viewer    read
findDefinition          viewer    read
findReferences          viewer    read
listSymbols             viewer    read
listCompletions         viewer    read
listMemory              viewer    read
createMemory            member    write
deleteMemory            member    write
listArtifacts           viewer    read
createArtifact          member    write
listProjectArtifacts    viewer    read
getArtifact             viewer    read
deleteArtifact          member    write
getArtifactContent      viewer    read
listArtifactLinks       member    admin
createArtifactLink      member    admin
revokeArtifactLink      member    admin
getSharedArtifact       public    -
listSubagents           viewer    attach
spawnSubagent           member    attach
getSubagent             viewer    attach
messageSubagent         member    attach
interruptSubagent       member    attach
mergeSubagent           member    write
listWorkspaceSubagents  viewer    attach
getCommand              viewer    read
cancelCommand           member    write
getNetwork              viewer    read
allowHost               admin     admin
disallowHost            admin     admin
getSandbox              viewer    read
listPorts               viewer    read
getPort                 member    write
listPortLinks           member    admin
createPortLink          member    admin
revokePortLink          member    admin
openPort                member    write
fallBack                member    write
getOwnSecrets           member    attach
setOwnSecrets           member    attach
getLimits               viewer    read
setLimits               member    write
pauseSandbox            member    write
wakeSandbox             member    write
destroySandbox          member    write
listRuns                viewer    read
createRun               member    write
getRun                  viewer    read
keepRun                 member    write
listPrompts             viewer    attach
createPrompt            member    attach
updatePrompt            member    attach
deletePrompt            member    attach
interruptSession        member    attach
listToolCalls           viewer    attach
exportToolCalls         viewer    attach
listSessionToolCalls    viewer    attach
getConversation         viewer    attach
listConversations       viewer    attach
listSessions            viewer    read
createSession           member    attach
getSession              viewer    read
stopSession             member    attach
resumeSession           member    attach
sendInput               member    attach
correctState            member    attach
getOutput               viewer    attach
getScreen               viewer    attach
getScrollback           viewer    attach
searchHistory           viewer    attach
getTeamStorage          viewer    read
getWorkspaceStorage     viewer    read
getTiming               viewer    attach
getMoment               viewer    attach
exportSession           viewer    attach
getJournal              viewer    attach
listQuestions           viewer    attach
answerQuestion          member    attach
attachTerminal          viewer    attach
watchBrowser            viewer    attach
getDesktop              viewer    read
startDesktop            member    write
closeDesktop            member    write
controlDesktop          member    attach
watchDesktop            viewer    attach
getInbox                viewer    read
snoozeInboxItem         viewer    write
finishInboxItem         viewer    write
reopenInboxItem         viewer    write
`

// callerTable says what each kind of caller is answered, by who may use an operation. "in": it is let in; else the status and the code of
// the refusal. Outsiders get the same answer for what is not theirs and what does not exist, before any upgrade.
//
//	other       owns another team
//	operator    of the server, in no team
//	nobody      without a login
//	link        has the cookie of a link to watch a session of the team, and nothing else
//	suspended   a member who is suspended
//	closed      owns a suspended team, and asks for what is in that
//	foreign     an owner's browser, led by a page of another origin
//	narrow      an owner's token without the scope
//	exact       an owner's token with that scope alone
var callerTable = map[string]map[string]string{
	"public":  {"other": "in", "operator": "in", "nobody": "in", "link": "in", "suspended": "in", "closed": "in", "foreign": "403 cross_origin", "narrow": "in", "exact": "in"},
	"open":    {"other": "in", "operator": "in", "nobody": "in", "link": "in", "suspended": "in", "closed": "in", "foreign": "in", "narrow": "in", "exact": "in"},
	"page":    {"other": "in", "operator": "in", "nobody": "in", "link": "in", "suspended": "in", "closed": "in", "foreign": "403 ", "narrow": "in", "exact": "in"},
	"machine": {"other": "in", "operator": "in", "nobody": "in", "link": "in", "suspended": "in", "closed": "in", "foreign": "in"},
	"socket":  {"other": "in", "operator": "in", "nobody": "in", "link": "403 origin_missing", "suspended": "in", "closed": "in", "foreign": "403 origin_not_allowed", "narrow": "in", "exact": "in"},
	"self": {"other": "in", "operator": "in", "nobody": "401 signed_out", "link": "401 signed_out", "suspended": "403 suspended", "closed": "in",
		"foreign": "403 cross_origin", "narrow": "403 wrong_scope", "exact": "in"},
	"operator": {"other": "403 operators_only", "operator": "in", "nobody": "401 signed_out", "link": "401 signed_out", "suspended": "403 suspended",
		"closed": "403 operators_only", "foreign": "403 cross_origin"},
	"scraper": {"other": "403 operators_only", "operator": "in", "nobody": "in", "link": "401 signed_out", "suspended": "403 suspended",
		"closed": "403 operators_only", "foreign": "403 cross_origin"},
	"team": {"other": "404 not_found", "operator": "404 not_found", "nobody": "401 signed_out", "link": "401 signed_out", "suspended": "403 suspended",
		"closed": "403 team_suspended", "foreign": "403 cross_origin", "narrow": "403 wrong_scope", "exact": "in"},
}

// rolesTable is what members are answered, by the least role.
var rolesTable = map[string]map[string]string{
	"viewer":  {"viewer": "in", "member": "in", "admin": "in", "owner": "in"},
	"member":  {"viewer": "403 forbidden", "member": "in", "admin": "in", "owner": "in"},
	"admin":   {"viewer": "403 forbidden", "member": "403 forbidden", "admin": "in", "owner": "in"},
	"owner":   {"viewer": "403 forbidden", "member": "403 forbidden", "admin": "403 forbidden", "owner": "in"},
	"theirs":  {"viewer": "404 not_found", "member": "404 not_found", "admin": "404 not_found", "owner": "in"},
	"managed": {"viewer": "404 not_found", "member": "404 not_found", "admin": "in", "owner": "in"},
}
