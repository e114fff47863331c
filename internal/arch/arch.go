// Package arch holds no code of the program, only the test that keeps the harness's plan true: who may know whom, and why not.
package arch
