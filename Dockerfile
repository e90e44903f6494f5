# One image with every binary that a cluster runs. hack/images.sh builds the static binaries on the host, where Go's cache is
# warm, and gives the directory that holds them as context:
#
#   hack/images.sh                    build, and write archives into dist/
#   BASE=some/distroless hack/images.sh   the same on another base
#
# The binaries need nothing from the base: no shell, no certificates, no passwd file, no writable directory.
ARG BASE=scratch
FROM ${BASE}
COPY . /workpulling/
USER 65532:65532
ENTRYPOINT ["/workpulling/operator"]
