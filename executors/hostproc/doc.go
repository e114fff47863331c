// Package hostproc makes, finds and ends guests that are processes of this machine, for the executors that start such: a folder per
// sandbox with the guest's socket, token and record, who a process is beyond its pid, and the end of everything that belongs to a
// sandbox. The executor says what the guest's process is and what is around it.
package hostproc
