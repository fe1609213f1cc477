# What `packer init` fetches: the sources of EC2 are a plugin from Packer 1.7 on.
packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = "~> 1"
    }
  }
}
