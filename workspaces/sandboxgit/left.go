package sandboxgit

// LeftMark stands in the names of branches made of what a machine that was away had, behind the workspace's own.
const LeftMark = "-on-"
