package executors

// Note is an entry for a workspace's timeline.
type Note struct {
	WorkspaceID, TeamID string
	Kind                string // limit.memory, limit.processes, limit.disk, limit.wall, limit.disk_near, limit.wall_near
	Text                string
}
