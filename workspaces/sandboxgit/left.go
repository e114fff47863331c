package sandboxgit

// LeftMark is part of the names of branches made of an abandoned sandbox's work, after the workspace's own.
const LeftMark = "-on-"
