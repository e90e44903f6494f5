// Package tools pins the tools of the build. `make install-tools` builds each
// from this module, so that a tool is as reproducible as the code it checks.
// buf and the linters need versions of shared modules that the others do not
// take; they are modules of their own beside this one.
package tools
