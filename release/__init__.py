"""What a release is made of: wheels, sdists, SBOM, image, and the check of a tag; docs/releasing.md has it all.

    python -m release.dist      wheels, sdists, chart, SBOM and sums; built twice       (make dist)
    python -m release.lock      the parts of requirements.lock that image and build need (make lock)
    python -m release.image     the image, where a container engine runs                (make image)
    python -m release.tag v1.2  that tag, version and CHANGELOG are of one mind         (make release-check)

These run from the project's own environment and are no part of the product.
"""
