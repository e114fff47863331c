// Package failpoint names the points at which tests kill the server to check that nothing is lost. Only a program built with the
// tag failpoints, or with the race detector, which no production server is, has them: in others Reach does nothing and is inlined away.
//
// A point stands between two steps that cannot be atomic, such as moving a ref and storing the row about it. To add
// such a pair, add a constant here, call Reach between the steps, and write its scenario in testing/testkit; the test
// there walks All and fails for a point without one.
package failpoint

import "strconv"

// Point is a place in the program.
type Point string

const timesMark = "*"

// Times is the point when n are there: each stays at it, and the last one kills the program.
func (p Point) Times(n int) Point { return p + Point(timesMark+strconv.Itoa(n)) }

// The points, by room.
const (
	// A project whose row is stored and whose repository is not there yet.
	ProjectStored Point = "project.stored"

	// Creation of a workspace, step by step.
	WorkspaceStored     Point = "workspace.stored"      // the row; nothing on disk
	WorkspaceBranched   Point = "workspace.branched"    // branch and mark; no worktree
	WorkspaceLinked     Point = "workspace.linked"      // an empty worktree
	WorkspaceCheckedOut Point = "workspace.checked_out" // all files; the step not noted
	WorkspaceBuilt      Point = "workspace.built"       // all steps; not ready yet
	WorkspaceReady      Point = "workspace.ready"       // ready; the creation's mark still there

	// Commit and merge.
	CommitStaged Point = "commit.staged" // the commit is made and the index told; the branch has not moved
	CommitMoved  Point = "commit.moved"  // the branch moved; nothing noted
	ObjectsLent  Point = "objects.lent"  // packs a sandbox may read are there; that they are is not noted
	HomeChecked  Point = "home.checked"  // commits of a sandbox are checked; the repository does not have them
	HomeTaken    Point = "home.taken"    // the repository has them; no ref names them
	HomeMoved    Point = "home.moved"    // the refs name them; that they are synced is not stored
	BoxCleared   Point = "box.cleared"   // the git dir of a sandbox that is put away is gone; the linked worktree is not
	MergePlanned Point = "merge.planned" // the result is made; the base has not moved
	MergeLanded  Point = "merge.landed"  // the base moved; nothing noted

	UpdateApplied Point = "update.applied" // files and index are what they are to be; the branch has not moved

	// Archive, deletion and restore.
	PutAwayKept      Point = "put_away.kept"     // the snapshot is in the repository; the row does not know
	PutAwayStored    Point = "put_away.stored"   // the row knows; everything still there
	PurgeBegun       Point = "purge.begun"       // nobody sees it any more; nothing is removed
	PurgeRemoved     Point = "purge.removed"     // nothing of it is left but its rows
	PutAwayEnded     Point = "put_away.ended"    // the sandbox has ended; the folder is there
	PutAwayDoomed    Point = "put_away.doomed"   // the folder has another name; the repository still knows the worktree
	PutAwayCleared   Point = "put_away.cleared"  // sandbox and worktree gone; the state not noted
	RestoreRebuilt   Point = "restore.rebuilt"   // branch and files are back; the row says archived
	RestoreStored    Point = "restore.stored"    // the row says ready; the mark still there
	SandboxStored    Point = "sandbox.stored"    // the handle before the place is made
	SandboxMade      Point = "sandbox.made"      // the guest runs; not noted
	SandboxPaused    Point = "sandbox.paused"    // stored as paused; it still runs
	SessionStored    Point = "session.stored"    // the row; no process
	SessionStarted   Point = "session.started"   // the process runs; nothing noted
	SessionStopping  Point = "session.stopping"  // somebody asked for its end; the guest does not know yet
	SessionEnded     Point = "session.ended"     // the process ended; the row does not know
	SessionForgotten Point = "session.forgotten" // the end is stored; the guest still keeps its record
	PromptPasted     Point = "prompt.pasted"     // a prompt stands in the agent's box; not submitted
	CommandStored    Point = "command.stored"    // the row of a command; no process
	SandboxRowStored Point = "sandboxrow.stored" // the row of a sandbox without a repository; no workspace
	SandboxRowEnded  Point = "sandboxrow.ended"  // that it ended is stored; its workspace is there

	// A queued prompt, and a prompt that several agents get at once.
	QueueClaimed    Point = "queue.claimed"    // the numbers of its frames are stored; nothing is typed
	QueuePasted     Point = "queue.pasted"     // it stands in the agent's box; no Enter
	QueueTyped      Point = "queue.typed"      // Enter is sent; nothing noted
	QuestionStored  Point = "question.stored"  // an agent's question is stored; nobody was notified
	QuestionHanded  Point = "question.handed"  // the agent has its answer; the row does not know
	CheckpointTaken Point = "checkpoint.taken" // the snapshot of a checkpoint is in the timeline; no checkpoint refers to it
	RunMade         Point = "run.made"         // a workspace is made; its attempt does not know
	RunStarted      Point = "run.started"      // a session is started; its attempt does not know
	FirstStarting   Point = "first.starting"   // a workspace's first session is claimed; it has no row
	FirstStarted    Point = "first.started"    // it runs; that it is there is not noted

	JobStored  Point = "job.stored"  // a job has a row; nothing of it was begun
	JobStarted Point = "job.started" // its session runs; its row does not know
	RunAsked   Point = "run.asked"   // an automation's job has a row; the run does not know
	JobEnding  Point = "job.ending"  // how it ends is stored; its session runs and its files are not collected

	PlanDecided Point = "plan.decided" // a person has approved a plan; it has no tasks yet
	PlanTasked  Point = "plan.tasked"  // its tasks are made; its call does not say that it was approved

	SkillSaved Point = "skill.saved" // a version of a skill is written; its skill does not name it, and nothing is committed

	// The ledger.
	SegmentOpened Point = "segment.opened" // a sandbox's time counts; it is not ready yet
	SegmentBeaten Point = "segment.beaten" // a heartbeat is written
	SegmentClosed Point = "segment.closed" // a sandbox's time has ended
	HourRolled    Point = "hour.rolled"    // what an hour came to is written; it is not frozen

	// Suspending and resuming for a limit.
	GraceBegun    Point = "grace.begun"    // the grace is stored and told in the timeline; no terminal shows it
	GraceStopping Point = "grace.stopping" // stored as stopping; the sandbox runs
	GraceStopped  Point = "grace.stopped"  // the sandbox is suspended; the grace says stopping
	GraceLifted   Point = "grace.lifted"   // the sandbox goes on; the grace says stopped

	// Members' own machines.
	MachineEnrolled Point = "machine.enrolled" // its key is stored; it was not answered
	MachineOnline   Point = "machine.online"   // that it is connected is stored; nobody was notified
)

// The points of the program on a member's own machine.
const (
	CommandHad Point = "machine.command_had" // a command is noted as had; nothing of it is done
	BoxStored  Point = "machine.box_stored"  // the journal has the sandbox; nothing is made
	BoxMade    Point = "machine.box_made"    // it runs; not noted
	BoxEnding  Point = "machine.box_ending"  // the journal says that it is to end; it runs
	BoxGone    Point = "machine.box_gone"    // it has ended and its files are away; the journal still has it
)

// OnMachine lists the points of the program on a member's own machine.
var OnMachine = []Point{CommandHad, BoxStored, BoxMade, BoxEnding, BoxGone}

// The points of payment.
const (
	WebhookStored  Point = "webhook.stored"  // an event is stored; it was not answered
	CustomerSynced Point = "customer.synced" // what the payment service says of a customer is stored; the event that asked for it is not done
	CustomerQueued Point = "customer.queued" // that a customer is to be made is stored; the service was not asked
	CustomerMade   Point = "customer.made"   // the service has it; the row does not know
	CheckoutBegun  Point = "checkout.begun"  // the service has a checkout; the row does not know
	SeatsSet       Point = "seats.set"       // the service has the number of seats; the row does not know
)

// OfPayment lists the points of payment.
var OfPayment = []Point{WebhookStored, CustomerSynced, CustomerQueued, CustomerMade, CheckoutBegun, SeatsSet}

// The points of reporting usage to the payment service.
const (
	ReportsStored Point = "report.stored"  // reports of an hour are stored; none is sent
	ReportClaimed Point = "report.claimed" // that one is being sent is stored; the service does not know yet
	ReportTaken   Point = "report.taken"   // the service has it; the row does not know
)

// OfReports lists the points of reporting usage.
var OfReports = []Point{ReportsStored, ReportClaimed, ReportTaken}

// The points of changing the key that seals.
const (
	KeyMade   Point = "key.made"   // it lies beside the old one; nothing is sealed with it
	KeySealed Point = "key.sealed" // the database is sealed with it; files are not
	KeyFiles  Point = "key.files"  // everything is; the old one is still in its place
)

// OfKey lists the points of changing the key that seals.
var OfKey = []Point{KeyMade, KeySealed, KeyFiles}

// The points of taking a snapshot of a workspace's files.
const (
	SnapshotWritten Point = "snapshot.written" // its objects are in the repository; no ref names them
	SnapshotKept    Point = "snapshot.kept"    // a ref names it; there is no row

	SnapshotRestoring Point = "snapshot.restoring" // some files are what they were in a snapshot, others not yet
	TurnUndone        Point = "turn.undone"        // the files of a turn are undone; its messages are not
	UndoKept          Point = "undo.kept"          // the snapshot from before an edit is undone is there; nothing is written
	UndoWritten       Point = "undo.written"       // the file is written; that the edit is undone is not stored
	PartsWriting      Point = "parts.writing"      // some files are discarded, or taken from another workspace, others not yet
)

// The points of moving a workspace to another place.
const (
	MoveStored   Point = "move.stored"   // that it is to move is stored; nothing is done
	MoveTried    Point = "move.tried"    // a sandbox was made in the new place to see that it works, and ended
	MoveHome     Point = "move.home"     // everything is synced; the old sandbox still exists
	MoveStopped  Point = "move.stopped"  // its agents are stopped; its sandbox stands
	MoveEnded    Point = "move.ended"    // the old sandbox has ended; where the work stood there is not in the worktree yet
	MoveLeft     Point = "move.left"     // the old sandbox has ended; the row still names its place
	MoveSwitched Point = "move.switched" // the row names the new place; there is no sandbox
	MoveStarted  Point = "move.started"  // the new sandbox runs; no agent goes on in it
)

// OfMoves lists the points of moving a workspace.
var OfMoves = []Point{MoveStored, MoveTried, MoveStopped, MoveHome, MoveEnded, MoveLeft, MoveSwitched, MoveStarted}

// OfSnapshots lists the points of taking a snapshot, and of changing files after one was taken.
var OfSnapshots = []Point{UndoKept, UndoWritten, SnapshotWritten, SnapshotKept, SnapshotRestoring, PartsWriting}

// ReviewStored is a review that is stored as one an agent gets, and is not in that agent's queue.
const ReviewStored Point = "review.stored"

// The points of checks and the merge queue.
const (
	CheckStarted Point = "check.started" // a check's command runs; its row does not name it
	QueueLanding Point = "queue.landing" // stored as merging; the base has not moved
	QueueLanded  Point = "queue.landed"  // the base moved; the entry says merging
)

// OfMerging lists the points of checks and the merge queue.
var OfMerging = []Point{CheckStarted, QueueChecked, QueueLanding, QueueLanded}

// The points of pull requests.
const (
	PushSent    Point = "push.sent"    // the remote has the branch; that it has is not noted
	PullOpened  Point = "pull.opened"  // the forge has a pull request; there is no row
	PullKept    Point = "pull.kept"    // there is a row; how the pull request does is not known
	PullMerged  Point = "pull.merged"  // the forge has merged it; the row says open
	PullAwaited Point = "pull.awaited" // the row says merged; the base was not fetched
	PullHome    Point = "pull.home"    // the workspace is marked as merged; the row still waits for that
)

// The points of the sync with issues.
const (
	IssueOpened  Point = "issue.opened"  // the forge has an issue for a task; the task does not know
	IssueChanged Point = "issue.changed" // the forge has a change of a task; the outbox still holds it
)

// OfIssues lists the points of the sync with issues.
var OfIssues = []Point{IssueOpened, IssueChanged}

// OfPulls lists the points of pull requests.
var OfPulls = []Point{PushSent, PullOpened, PullKept, PullMerged, PullAwaited, PullHome}

// The points of an update that stops at conflicts, beside UpdateApplied.
const (
	UpdateMoved  Point = "update.moved"  // the branch has the base; nothing is noted
	UpdateBased  Point = "update.based"  // what the branch is compared with moved; the row does not know
	ResolveBegun Point = "resolve.begun" // git stopped at conflicts in the worktree; nobody was notified
	ResolveTaken Point = "resolve.taken" // what was resolved is staged; git has not continued
	ResolveEnded Point = "resolve.ended" // git went on, or ended it; nothing is noted
	ResolveGiven Point = "resolve.given" // git gave it up; nothing is noted
	QueueChecked Point = "queue.checked" // the merged result passed its checks; the entry says checking
)

// OfUpdates lists the points of updates and of their conflicts.
var OfUpdates = []Point{UpdateMoved, UpdateBased, ResolveBegun, ResolveTaken, ResolveEnded, ResolveGiven}

// OfLimits lists the points of holding work to its limits.
var OfLimits = []Point{GraceBegun, GraceStopping, GraceStopped, GraceLifted}

// AuditTaken is reached when entries of the audit that waited for room are stored, and the file in which they waited still has them.
const AuditTaken Point = "audit.taken"

// The points of calls of tools.
const (
	ToolBegun      Point = "tool.begun"      // the row of a call that changes something is stored; nothing is done
	ToolDone       Point = "tool.done"       // it is done; its row says running, and the caller has no answer
	ArtifactCopied Point = "artifact.copied" // an artifact's bytes are here; nobody has looked at them
	ArtifactPut    Point = "artifact.put"    // they are in the store of artifacts; the row says pending
	SubagentStored Point = "subagent.stored" // a subagent has a row; nothing of it was started
)

// OfTools lists the points of calls of tools.
var OfTools = []Point{ToolBegun, ToolDone, ArtifactCopied, ArtifactPut, SubagentStored}

// OfThePurge lists those of removing what is in the trash for good.
var OfThePurge = []Point{PurgeBegun, PurgeRemoved}

// All lists every point of the server beside those of lists of their own.
var All = []Point{ProjectStored, WorkspaceStored, WorkspaceBranched, WorkspaceLinked, WorkspaceCheckedOut, WorkspaceBuilt, WorkspaceReady,
	CommitStaged, CommitMoved, ObjectsLent, HomeChecked, HomeTaken, HomeMoved, BoxCleared, MergePlanned, MergeLanded, UpdateApplied, PutAwayKept, PutAwayStored, PutAwayEnded, PutAwayDoomed, PutAwayCleared, RestoreRebuilt, RestoreStored,
	SandboxStored, SandboxMade, SandboxPaused, SessionStored, SessionStarted, SessionStopping, SessionEnded, SessionForgotten, PromptPasted, CommandStored, SandboxRowStored, SandboxRowEnded, QueueClaimed, QueuePasted,
	QueueTyped, QuestionStored, QuestionHanded, CheckpointTaken, RunMade, RunStarted, FirstStarting, FirstStarted, JobStored, JobStarted, RunAsked, JobEnding, PlanDecided, PlanTasked, SkillSaved, MachineEnrolled, MachineOnline,
	SegmentOpened, SegmentBeaten, SegmentClosed, HourRolled}
