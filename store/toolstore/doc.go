// Package toolstore holds the SQL of the features below tools: tasks, artifacts, checkpoints, subagents, verification, memory, and the
// record of tool calls. It follows the rules of package store, whose DB it works on: `?` marks, {team} in every statement on a team's
// table, times as BIGINT ms UTC, JSON as TEXT. Each feature has a type of its own in a file of its own, which satisfies the feature's
// Store interface.
package toolstore
