package executors

// Note is something a workspace's people should read in its timeline.
type Note struct {
	WorkspaceID, TeamID string
	Kind                string // limit.memory, limit.processes, limit.disk, limit.wall, limit.disk_near, limit.wall_near
	Text                string
}
