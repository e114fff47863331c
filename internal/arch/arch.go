// Package arch contains no code of the program, only the tests that enforce the architecture: which package may import which, and why.
package arch
