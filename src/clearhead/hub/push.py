"""Upload of a model folder to the Hugging Face hub."""

from pathlib import Path

from clearhead.files import verify_if_marked


def push_folder(
    folder: str | Path, repo: str, *, private: bool = False, message: str | None = None, revision: str | None = None,
    token: str | None = None,
) -> str:  # fmt: skip
    """Verify a folder and upload it as one commit, and return the address of the commit; creates the repository.

    The token is the given one, else that of `hf auth login` or $HF_TOKEN.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    folder = Path(folder)
    verify_if_marked(folder)
    api = HfApi(token=token)
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repo, folder_path=folder, commit_message=message or "Upload by clearhead", revision=revision
        )
    except HFValidationError as error:
        raise ValueError(f"{repo!r} is not a name on the hub: give OWNER/NAME ({error})") from None
    except HfHubHTTPError as error:
        raise ValueError(f"the hub refused {repo}: {error}. Log in with `hf auth login`, or give a token") from None
    return done.commit_url
